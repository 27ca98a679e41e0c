/* The properties of the emulated machine, errors and the seed. */
#include "emu.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int current;
static cudaError_t last;

/* ---- Settings and random numbers ------------------------------------------------------------- */

uint64_t emu_setting(const char *name, uint64_t otherwise) {
    char full[64];
    snprintf(full, sizeof full, "TRINE_EMU_%s", name);
    const char *text = getenv(full);
    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

/* Weyl's sequence, mixed: Steele et al., "Fast splittable pseudorandom number generators", OOPSLA
 * 2014 (SplitMix64). */
static uint64_t state;
static bool seeded;

static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Mixed twice: otherwise the sequences of neighbouring seeds would be the same, shifted by one. */
void emu_seed(uint64_t seed) {
    state = mix(mix(seed + 1) + 0x9e3779b97f4a7c15u);
    seeded = true;
}

uint32_t emu_random(uint32_t n) {
    if (!seeded) emu_seed(emu_setting("SEED", 1));
    return (uint32_t)(((mix(state += 0x9e3779b97f4a7c15u) >> 32) * n) >> 32);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

cudaError_t emu_error(cudaError_t error) {
    if (error != cudaSuccess) last = error;
    return error;
}

cudaError_t cudaPeekAtLastError(void) {
    return emu_sticky() != cudaSuccess ? emu_sticky() : last;
}

cudaError_t cudaGetLastError(void) {
    cudaError_t error = cudaPeekAtLastError();
    last = cudaSuccess;
    return error;
}

const char *cudaGetErrorName(cudaError_t error) {
    switch (error) {
#define EMU_CASE(name, value, text)                                                                \
    case name: return #name;
        EMU_ERRORS(EMU_CASE)
#undef EMU_CASE
    }
    return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error) {
    switch (error) {
#define EMU_CASE(name, value, text)                                                                \
    case name: return text;
        EMU_ERRORS(EMU_CASE)
#undef EMU_CASE
    }
    return "unrecognized error code";
}

void emu_fault(const char *format, ...) {
    char text[1024], where[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    emu_where(where, sizeof where);
    fprintf(stderr, "emu: %s%s\n", text, where);
    fflush(stderr);
    abort();
}

/* ---- The machine ----------------------------------------------------------------------------- */

/* The number of GPUs, or the error without a GPU or with a driver that is too old. */
static cudaError_t machine(int *count) {
    *count = 0;
    if (emu_setting("DRIVER", 13000) < CUDART_VERSION / 1000 * 1000)
        return cudaErrorInsufficientDriver;
    *count = (int)emu_setting("GPUS", 8);
    return *count ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaGetDeviceCount(int *count) {
    return emu_error(machine(count));
}

static cudaError_t check_device(int device) {
    int count;
    cudaError_t error = machine(&count);
    if (error == cudaSuccess && (device < 0 || device >= count)) error = cudaErrorInvalidDevice;
    return emu_error(error);
}

cudaError_t cudaSetDevice(int device) {
    static bool installed;
    cudaError_t error = check_device(device);
    if (error != cudaSuccess) return error;
    if (!installed) emu_catch_signals();
    installed = true;
    current = device;
    return emu_error(emu_sticky());
}

cudaError_t cudaGetDevice(int *device) {
    *device = current;
    return emu_error(emu_sticky());
}

cudaError_t cudaSetDeviceFlags(unsigned) {
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device) {
    cudaError_t error = check_device(device);
    if (error != cudaSuccess) return error;
    *p = {};
    snprintf(p->name, sizeof p->name, "Emulated GPU");
    p->totalGlobalMem = emu_setting("MEMORY", (uint64_t)4 << 30);
    p->sharedMemPerBlock = 48 << 10;
    p->sharedMemPerBlockOptin = 227 << 10;
    p->sharedMemPerMultiprocessor = 228 << 10;
    p->reservedSharedMemPerBlock = 1 << 10;
    p->regsPerBlock = 65536;
    p->warpSize = 32;
    p->maxThreadsPerBlock = p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
    p->maxThreadsDim[2] = 64;
    p->maxGridSize[0] = 0x7fffffff;
    p->maxGridSize[1] = p->maxGridSize[2] = 65535;
    p->major = 9;
    p->multiProcessorCount = (int)emu_setting("PROCESSORS", 6);
    p->maxThreadsPerMultiProcessor = 2048;
    p->l2CacheSize = (int)emu_setting("CACHE", 50 << 20);
    p->pciBusID = device + 1;
    p->unifiedAddressing = p->concurrentKernels = 1;
    p->asyncEngineCount = 3;
    p->memoryBusWidth = 5120;
    p->ECCEnabled = 1;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device) {
    struct cudaDeviceProp p;
    cudaError_t error = cudaGetDeviceProperties(&p, device);
    if (error != cudaSuccess) return error;
    switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: *value = p.maxThreadsPerBlock; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = (int)p.sharedMemPerBlock; break;
    case cudaDevAttrWarpSize: *value = p.warpSize; break;
    case cudaDevAttrMultiProcessorCount: *value = p.multiProcessorCount; break;
    case cudaDevAttrL2CacheSize: *value = p.l2CacheSize; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = p.maxThreadsPerMultiProcessor; break;
    case cudaDevAttrComputeCapabilityMajor: *value = p.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = p.minor; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
        *value = (int)p.sharedMemPerMultiprocessor;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = (int)p.sharedMemPerBlockOptin; break;
    default: return emu_error(cudaErrorInvalidValue);
    }
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *id, int size, int device) {
    cudaError_t error = check_device(device);
    if (error != cudaSuccess) return error;
    if (size < 13) return emu_error(cudaErrorInvalidValue);
    snprintf(id, (size_t)size, "0000:%02X:00.0", (unsigned)(device + 1) & 0xffu);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *id) {
    int count = 0;
    char own[16];
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess) return error;
    for (*device = 0; *device < count; ++*device) {
        cudaDeviceGetPCIBusId(own, sizeof own, *device);
        if (strcmp(own, id) == 0) return cudaSuccess;
    }
    return emu_error(cudaErrorInvalidValue);
}

/* Groups of four GPUs on a switch, with NVLink in pairs. */
cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
    cudaError_t error = check_device(device);
    if (error == cudaSuccess) error = check_device(peer);
    if (error != cudaSuccess) return error;
    *can = device != peer && device / 4 == peer / 4;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attribute, int device,
                                      int peer) {
    cudaError_t error = cudaDeviceCanAccessPeer(value, device, peer);
    if (error != cudaSuccess) return error;
    if (attribute == cudaDevP2PAttrPerformanceRank) *value = device / 2 == peer / 2 ? 0 : 1;
    if (attribute == cudaDevP2PAttrNativeAtomicSupported)
        *value = device != peer && device / 2 == peer / 2;
    return cudaSuccess;
}

/* Smaller numbers have higher priority. */
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version) {
    *version = (int)emu_setting("DRIVER", 13000);
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}
