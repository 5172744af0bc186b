// Stand-in for the CUDA runtime, preloaded: STANDIN_GPUS devices (8) whose memory is the host's, so that CUDA starts.
// Copies and memset work, and kernels do nothing. What torch calls and is not here is that of the genuine runtime, over
// the stand-in driver. NCCL has a runtime of its own: its start fails, with its own message. On the local rank
// STANDIN_BAD, CUDA does not start.
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int error;
static __thread int current;  // device of this thread, as in CUDA

static int count(void) {
    const char *text = getenv("STANDIN_GPUS");
    return text ? atoi(text) : 8;
}

error cudaGetDeviceCount(int *number) {
    const char *bad = getenv("STANDIN_BAD"), *rank = getenv("LOCAL_RANK");
    if (bad && rank && !strcmp(bad, rank)) return *number = 0, 802;
    return *number = count(), *number ? 0 : 100;
}
error cudaDriverGetVersion(int *version) { return *version = 13000, 0; }
error cudaGetDevice(int *device) { return *device = current, 0; }
error cudaSetDevice(int device) { return device < count() ? current = device, 0 : 101; }
error cudaGetLastError(void) { return 0; }
error cudaPeekAtLastError(void) { return 0; }

// The beginning of cudaDeviceProp is the same in CUDA 12 and 13.
struct properties {
    char name[256], uuid[16], luid[8];
    unsigned mask;
    size_t memory, shared;
    int registers, warp;
    size_t pitch;
    int threads, block[3], grid[3], clock;
    size_t constant;
    int major, minor;
};

error cudaGetDeviceProperties(struct properties *properties, int device) {
    memset(properties, 0, sizeof *properties);
    strcpy(properties->name, "NVIDIA Stand-in");
    properties->uuid[15] = (char)device;
    properties->memory = (size_t)80 << 30;
    properties->warp = 32;
    properties->threads = 1024;
    properties->major = 9;
    return 0;
}
error cudaGetDeviceProperties_v2(struct properties *properties, int device) {
    return cudaGetDeviceProperties(properties, device);
}
error cudaDeviceGetAttribute(int *value, int attribute, int device) { return *value = 1, 0; }
error cudaDeviceGetStreamPriorityRange(int *least, int *greatest) { return *least = 0, *greatest = -5, 0; }
error cudaDeviceCanAccessPeer(int *possible, int device, int peer) { return *possible = 0, 0; }
error cudaDeviceSynchronize(void) { return 0; }

error cudaMalloc(void **memory, size_t size) { return (*memory = malloc(size)) ? 0 : 2; }
error cudaFree(void *memory) { return free(memory), 0; }
error cudaHostAlloc(void **memory, size_t size, unsigned flags) { return cudaMalloc(memory, size); }
error cudaFreeHost(void *memory) { return cudaFree(memory); }
error cudaMemGetInfo(size_t *left, size_t *total) { return *left = *total = (size_t)80 << 30, 0; }
error cudaMemcpy(void *to, const void *from, size_t size, int kind) { return memcpy(to, from, size), 0; }
error cudaMemcpyAsync(void *to, const void *from, size_t size, int kind, void *stream) { return memcpy(to, from, size), 0; }
error cudaMemset(void *memory, int value, size_t size) { return memset(memory, value, size), 0; }
error cudaMemsetAsync(void *memory, int value, size_t size, void *stream) { return memset(memory, value, size), 0; }

error cudaStreamCreate(void **stream) { return *stream = malloc(1), 0; }
error cudaStreamCreateWithPriority(void **stream, unsigned flags, int priority) { return cudaStreamCreate(stream); }
error cudaStreamDestroy(void *stream) { return 0; }
error cudaStreamQuery(void *stream) { return 0; }
error cudaStreamSynchronize(void *stream) { return 0; }
error cudaStreamWaitEvent(void *stream, void *event, unsigned flags) { return 0; }
error cudaStreamIsCapturing(void *stream, int *status) { return *status = 0; }
error cudaThreadExchangeStreamCaptureMode(int *mode) { return 0; }
error cudaEventCreate(void **event) { return cudaStreamCreate(event); }
error cudaEventCreateWithFlags(void **event, unsigned flags) { return cudaStreamCreate(event); }
error cudaEventDestroy(void *event) { return 0; }
error cudaEventQuery(void *event) { return 0; }
error cudaEventRecord(void *event, void *stream) { return 0; }
error cudaEventSynchronize(void *event) { return 0; }
error cudaEventElapsedTime(float *milliseconds, void *begin, void *end) { return *milliseconds = 1, 0; }
error cudaLaunchKernel(const void *function) { return 0; }
error cudaLaunchKernelExC(const void *configuration, const void *function, void **arguments) { return 0; }
error __cudaLaunchKernel(void *kernel) { return 0; }
error __cudaGetKernel(void **kernel, const void *function) { return *kernel = (void *)function, 0; }
