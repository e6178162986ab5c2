/* Distributor, redistributor and CPU interface of one CPU. */
#include "gic.h"

#include "machine.h"

#define WORD(address) (*(volatile uint32_t *)(uintptr_t)(address))

#define DISTRIBUTOR_CONTROL (GIC_DISTRIBUTOR + 0x0)
#define REDISTRIBUTOR_WAKER (GIC_REDISTRIBUTOR + 0x14)
/* The redistributor's second frame: the CPU's own interrupts. */
#define GROUPS (GIC_REDISTRIBUTOR + 0x10080)
#define SET_ENABLE (GIC_REDISTRIBUTOR + 0x10100)
#define PRIORITIES (GIC_REDISTRIBUTOR + 0x10400)

#define GROUP_1_AND_AFFINITY 0x12u
#define WAKER_PROCESSOR_SLEEPS 2u
#define WAKER_CHILDREN_SLEEP 4u

/* System registers by their encodings: assemblers of some age do not know their names. */
#define ICC_SRE_EL1 "s3_0_c12_c12_5"
#define ICC_IGRPEN1_EL1 "s3_0_c12_c12_7"
#define ICC_PMR_EL1 "s3_0_c4_c6_0"
#define ICC_SGI1R_EL1 "s3_0_c12_c11_5"

void gic_start(void)
{
    uint64_t enable = 1;
    uint64_t everything = 0xff;
    uint64_t system_registers = 7;

    WORD(DISTRIBUTOR_CONTROL) = GROUP_1_AND_AFFINITY;
    WORD(REDISTRIBUTOR_WAKER) &= ~WAKER_PROCESSOR_SLEEPS;
    while ((WORD(REDISTRIBUTOR_WAKER) & WAKER_CHILDREN_SLEEP) != 0) {
    }
    WORD(GROUPS) = UINT32_MAX;
    __asm volatile("msr " ICC_SRE_EL1 ", %0\n\tisb" ::"r"(system_registers));
    __asm volatile("msr " ICC_PMR_EL1 ", %0" ::"r"(everything));
    __asm volatile("msr " ICC_IGRPEN1_EL1 ", %0\n\tisb" ::"r"(enable));
}

void gic_enable(unsigned interrupt, uint8_t priority)
{
    *(volatile uint8_t *)(uintptr_t)(PRIORITIES + interrupt) = priority;
    WORD(SET_ENABLE) = 1u << interrupt;
}

void gic_request(void)
{
    uint64_t affinity;
    uint64_t request;

    __asm volatile("mrs %0, mpidr_el1" : "=r"(affinity));
    /* Interrupt in bits 24 to 27, affinity 1 in 16 to 23, the CPU in a list of 16. */
    request = (uint64_t)REQUEST_INTERRUPT << 24 | (affinity & 0xff00) << 8 |
              (uint64_t)1 << (affinity & 15);
    __asm volatile("msr " ICC_SGI1R_EL1 ", %0\n\tisb" ::"r"(request) : "memory");
}
