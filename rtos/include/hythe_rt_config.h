/*
 * Limits of the library that are fixed when it is compiled. Override with -D; every file and every
 * user of hythe_rt.h must be compiled with the same values, since they size the structures.
 */
#ifndef HYTHE_RT_CONFIG_H
#define HYTHE_RT_CONFIG_H

/*
 * Most endpoints one link can serve, 1 to 16. Each costs about 64 bytes in struct hythe_link, and
 * its ports.
 */
#ifndef HYTHE_MAX_ENDPOINTS
#define HYTHE_MAX_ENDPOINTS 8
#endif

/*
 * Most Linux ports one endpoint can serve at once, 1 to 8. Each costs 32 bytes for each endpoint.
 */
#ifndef HYTHE_MAX_PORTS
#define HYTHE_MAX_PORTS 8
#endif

/*
 * 0: no code for cache maintenance, and `clean` and `invalidate` of the port are not called. For
 * cores without a data cache, and those whose caches are coherent with Linux's.
 */
#ifndef HYTHE_CACHE_HOOKS
#define HYTHE_CACHE_HOOKS 1
#endif

/*
 * Longest sleep inside a blocking call, in milliseconds. A ring that got lost (an emulator may drop
 * the barrier that protects a sleep flag) costs this much at most.
 */
#ifndef HYTHE_WAIT_SLICE_MS
#define HYTHE_WAIT_SLICE_MS 10
#endif

#if HYTHE_MAX_ENDPOINTS < 1 || HYTHE_MAX_ENDPOINTS > 16
#error "HYTHE_MAX_ENDPOINTS must be 1 to 16"
#endif
#if HYTHE_MAX_PORTS < 1 || HYTHE_MAX_PORTS > 8
#error "HYTHE_MAX_PORTS must be 1 to 8"
#endif
#if HYTHE_WAIT_SLICE_MS < 1
#error "HYTHE_WAIT_SLICE_MS must be at least 1"
#endif

#endif
