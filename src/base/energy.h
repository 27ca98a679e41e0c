/* The energy that this machine's processors have taken, by the kernel's powercap counters (RAPL):
 *
 *     /sys/class/powercap/intel-rapl:0/{name, energy_uj, max_energy_range_uj}      also of AMD's processors
 *
 * Only packages count (name "package-0"): a domain below one (intel-rapl:0:0) is a part of it, "psys" contains all,
 * and intel-rapl-mmio shows the same packages again. Memory outside a package, GPUs, fans and losses are not in it.
 * The counters change about once in a millisecond. Since Linux 5.10 only root may read them, unless udev says
 * otherwise. TRINE_POWERCAP is another folder than /sys/class/powercap. Not collective. */
#ifndef TRINE_BASE_ENERGY_H
#define TRINE_BASE_ENERGY_H

#include <stdbool.h>
#include <stdint.h>

#define ENERGY_PACKAGES 64

typedef struct energy {
    int count; /* of packages; 0: none, or one of them cannot be read */
    struct {
        int fd;
        uint64_t range, begun; /* in microjoules: where the counter begins anew; when the interval began */
    } packages[ENERGY_PACKAGES];
} energy;

/* Opens the counters of all packages, or none. */
void energy_open(energy *e);
void energy_close(energy *e);

/* Begins an interval. False: a counter cannot be read. */
bool energy_begin(energy *e);
/* *microjoules of the interval so far, in which a counter may have begun anew once: with a range of 262 kJ and 250 W
 * it does so every 17 minutes. False: a counter cannot be read. */
bool energy_since(const energy *e, uint64_t *microjoules);

#endif
