// Stand-in for libcuda.so.1, a driver whose cuInit fails with STANDIN_ERROR (802: no fabric manager runs).
// STANDIN_DRIVER is the CUDA version of the driver (13000). torch's own runtime makes the messages from these answers.
#include <stdlib.h>
#include <string.h>

static int number(const char *name, int usual) {
    const char *text = getenv(name);
    return text ? atoi(text) : usual;
}

int cuInit(unsigned flags) { return number("STANDIN_ERROR", 802); }

int cuDriverGetVersion(int *version) {
    *version = number("STANDIN_DRIVER", 13000);
    return 0;
}

static int other(void) { return cuInit(0); }

int cuGetProcAddress_v2(const char *symbol, void **function, int version, unsigned long long flags, int *status) {
    if (!strcmp(symbol, "cuInit")) *function = cuInit;
    else if (!strcmp(symbol, "cuDriverGetVersion")) *function = cuDriverGetVersion;
    else if (!strncmp(symbol, "cuGetProcAddress", 16)) *function = cuGetProcAddress_v2;
    else *function = other;
    if (status) *status = 0;
    return 0;
}

int cuGetProcAddress(const char *symbol, void **function, int version, unsigned long long flags) {
    return cuGetProcAddress_v2(symbol, function, version, flags, NULL);
}

int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
    *flags = *active = 0;
    return 0;
}

int cuGetExportTable(const void **table, const void *id) { return cuInit(0); }

int cuGetErrorName(int error, const char **text) {
    *text = "CUDA_ERROR_SYSTEM_NOT_READY";
    return 0;
}

int cuGetErrorString(int error, const char **text) {
    *text = "system not yet initialized";
    return 0;
}
