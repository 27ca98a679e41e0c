/* TEST np=0 */
/* Every transport and every device states the order of its sums, and what trine-prove takes for a configuration is what
 * they state. comm/collectives and ops/ hold them to it. */
#include "harness.h"

#include "comm/api/comm.h"
#include "comm/transport/mpi/mpi.h"
#include "comm/transport/self/self.h"
#include "comm/transport/shm/shm.h"
#include "device/device.h"

static void every_transport_states_its_order(void **state) {
    (void)state;
    const comm_transport *const tables[] = {&mpi_transport, &self_transport, &shm_transport};
    for (size_t n = 0; n < sizeof tables / sizeof *tables; n++)
        assert_int_equal(tables[n]->order, COMM_ORDER_RANKS);
    for (int which = 0; which < TRINE_TRANSPORTS; which++)
        for (int gpus = 0; gpus < 2; gpus++)
            for (int ordered = 0; ordered < 2; ordered++) {
                const bool nccl = which == TRINE_TRANSPORT_AUTO || which == TRINE_TRANSPORT_NCCL;
                assert_int_equal(comm_order_of((trine_transport)which, gpus, ordered),
                                 nccl && gpus && !ordered ? COMM_ORDER_LIBRARY : COMM_ORDER_RANKS);
            }
}

static void every_device_states_its_order(void **state) {
    (void)state;
    for (int kind = 0; kind < DEVICE_KINDS; kind++)
        assert_int_not_equal(device_order_of((device_kind)kind), DEVICE_ORDER_UNSTATED);
    assert_int_equal(device_order_of(DEVICE_CPU), DEVICE_ORDER_THREADS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_transport_states_its_order),
        cmocka_unit_test(every_device_states_its_order),
    };
    return HARNESS_RUN_ALONE(tests);
}
