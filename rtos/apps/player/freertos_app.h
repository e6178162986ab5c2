/* What this program wants of the kernel (boards/freertos_common.h): run times of its tasks. */
#define configGENERATE_RUN_TIME_STATS 1
