// Stand-in for libnvidia-ml.so.1: NVML answers, and counts STANDIN_GPUS devices (8), also where CUDA does not start.
#include <stdio.h>
#include <stdlib.h>

static unsigned count(void) {
    const char *text = getenv("STANDIN_GPUS");
    return text ? atoi(text) : 8;
}

int nvmlInit(void) { return 0; }
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }

int nvmlDeviceGetCount_v2(unsigned *result) {
    *result = count();
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    if (index >= count()) return 2;  // NVML_ERROR_INVALID_ARGUMENT
    *device = (void *)(size_t)(index + 1);
    return 0;
}

int nvmlDeviceGetUUID(void *device, char *text, unsigned length) {
    snprintf(text, length, "GPU-%08x-51c0-8f2e-9f6b-3d0c6a1be000", (unsigned)(size_t)device);
    return 0;
}
