/* Changes of parameters, for comparisons and tests. */
#include <stdlib.h>

#include "base/half.h"
#include "base/mix.h"
#include "base/status.h"
#include "comm/api/comm.h"
#include "train/fingerprint.h"
#include "train/fingerprint_parts.h"

/* The least relative change of a parameter that the compute type keeps. */
static double unit_of(trine_dtype type) {
    return type == TRINE_BF16 ? 0x1p-8 : type == TRINE_F16 ? 0x1p-11 : 0x1p-23;
}

static void set_element(trine_dtype type, void *at, size_t n, float x) {
    if (type == TRINE_F32)
        ((float *)at)[n] = x;
    else
        ((uint16_t *)at)[n] = type == TRINE_BF16 ? bf16_store(x) : f16_store(x);
}

/* Parameters of a range, and the fp32 numbers whose rounding they are: the master, or where there is none, in fp32 and of
 * a frozen range, themselves. */
typedef struct {
    void *params;
    float *x;
    bool master;
} some_params;

static trine_status read_params(const trine_trainer *t, const held_unit *u, int r, flat_part part,
                                some_params *p) {
    const trine_dtype type = t->dev->compute;
    p->master = state_has_master(&t->held) && state_trains(u, r);
    p->params = malloc(part.count * trine_dtype_bytes(type));
    p->x = malloc(part.count * sizeof *p->x);
    CHECK(p->params && p->x, TRINE_ENOMEM, "no memory for %zu parameters", part.count);
    if (p->master)
        return device_read(t->dev, p->x, state_master(&t->held, u, r, part),
                           part.count * sizeof *p->x);
    TRY(device_read(t->dev, p->params, state_param(&t->held, u, r, part),
                    part.count * trine_dtype_bytes(type)));
    for (size_t n = 0; n < part.count; n++) p->x[n] = fingerprint_element(type, p->params, n);
    return TRINE_OK;
}

static trine_status write_params(const trine_trainer *t, const held_unit *u, int r, flat_part part,
                                 const some_params *p) {
    const trine_dtype type = t->dev->compute;
    for (size_t n = 0; n < part.count; n++) set_element(type, p->params, n, p->x[n]);
    if (p->master)
        TRY(device_write(t->dev, state_master(&t->held, u, r, part), p->x,
                         part.count * sizeof *p->x));
    return device_write(t->dev, state_param(&t->held, u, r, part), p->params,
                        part.count * trine_dtype_bytes(type));
}

static trine_status nudge_elements(trine_trainer *t, const held_unit *u, int r, flat_part part,
                                   uint64_t seed) {
    some_params p = {NULL, NULL, false};
    trine_status status = read_params(t, u, r, part, &p);
    for (size_t n = 0; n < part.count && status == TRINE_OK; n++) {
        const uint64_t place = (uint64_t)u->unit << 40 ^ (uint64_t)(part.begin + n);
        const bool up = mix_bits(seed ^ mix_bits(place)) & 1;
        p.x[n] += (float)((up ? 1 : -1) * unit_of(t->dev->compute) * (double)p.x[n]);
    }
    if (status == TRINE_OK) status = write_params(t, u, r, part, &p);
    free(p.params), free(p.x);
    return status;
}

trine_status fingerprint_nudge(trine_trainer *t, uint64_t seed) {
    const rank_state *h = &t->held;
    CHECK(axes_size(t->config.parallel.layout, ALL_AXES) == 1, TRINE_EINVAL,
          "parameters are nudged on one rank");
    for (int n = 0; n < h->count; n++)
        for (int r = 0; r < flat_ranges(&h->units[n].layout); r++) {
            const held_unit *u = &h->units[n];
            const flat_range *range = state_range(u, r);
            for (int i = 0; i < range->tensor_count && !state_borrowed(u, r); i++) {
                const tensor one = flat_tensor(range, flat_part_of(&u->layout, r), i);
                TRY(nudge_elements(t, u, r, (flat_part){one.offset, tensor_real(&one)}, seed));
            }
        }
    return TRINE_OK;
}

/* The first element of range r that is this rank's own and no padding; false: there is none. */
static bool first_element(const rank_state *h, const held_unit *u, int r, size_t *at) {
    const flat_range *range = state_range(u, r);
    const flat_part own = state_owned(h, u, r);
    for (int i = 0; i < range->tensor_count; i++) {
        const tensor t = flat_tensor(range, flat_part_of(&u->layout, r), i);
        size_t from, to;
        uint64_t place;
        if (!flat_overlap(&t, own.begin, own.count, &from, &to)) continue;
        for (*at = from; *at < to; ++*at)
            if (fingerprint_place(&t, *at - t.offset, &place)) return true;
    }
    return false;
}

trine_status fingerprint_flip(trine_trainer *t, int unit, int bit) {
    const rank_state *h = &t->held;
    const int rank = trine_world_rank(t->world);
    CHECK(unit < t->spec.units && spec_holds(&t->spec, trine_mesh_coord(t->mesh).pp, unit),
          TRINE_EINVAL, "rank %d has no parameters of unit %d, to change a bit of", rank, unit);
    const held_unit *u = state_unit(h, unit);
    size_t element = 0;
    int r = 0;
    while (r < flat_ranges(&u->layout) && !first_element(h, u, r, &element)) r++;
    CHECK(r < flat_ranges(&u->layout), TRINE_EINVAL,
          "rank %d has nothing but padding of unit %d, to change a bit of", rank, unit);
    const size_t bytes = state_param_bytes(h);
    char *at = state_param(h, u, r, (flat_part){element, 1});
    uint32_t x = 0;
    TRY(device_read(t->dev, &x, at, bytes));
    x ^= (uint32_t)1 << bit;
    return device_write(t->dev, at, &x, bytes);
}
