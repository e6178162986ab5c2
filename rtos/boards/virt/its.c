/* Tables of the redistributor and of the service, and the commands that fill them. */
#include "its.h"

#include "machine.h"

#define WORD(address) (*(volatile uint32_t *)(uintptr_t)(address))
#define LONG_WORD(address) (*(volatile uint64_t *)(uintptr_t)(address))

#define REDISTRIBUTOR_CONTROL (GIC_REDISTRIBUTOR + 0x0)
#define CONFIGURATION_BASE (GIC_REDISTRIBUTOR + 0x70)
#define PENDING_BASE (GIC_REDISTRIBUTOR + 0x78)
#define ENABLE_LPIS 1u

#define SERVICE_CONTROL (GIC_ITS + 0x0)
#define COMMAND_BASE (GIC_ITS + 0x80)
#define COMMAND_WRITE (GIC_ITS + 0x88)
#define COMMAND_READ (GIC_ITS + 0x90)
#define TABLE_BASE (GIC_ITS + 0x100)
#define TRANSLATER (GIC_ITS + 0x10040)
#define TABLES 8
#define TABLE_TYPE_DEVICES 1u
#define TABLE_TYPE_COLLECTIONS 4u

#define VALID ((uint64_t)1 << 63)
#define PENDING_IS_ZERO ((uint64_t)1 << 62)

/* Interrupt numbers of 14 bits, the fewest there can be: LPIs are those from 8192 on. */
#define NUMBER_BITS 14
#define LPIS ((1u << NUMBER_BITS) - MESSAGE_INTERRUPT)
#define LPI_ENABLE 1u

#define COMMAND_SYNC 0x05u
#define COMMAND_MAP_DEVICE 0x08u
#define COMMAND_MAP_COLLECTION 0x09u
#define COMMAND_MAP_INTERRUPT 0x0au
#define COMMAND_INVALIDATE 0x0cu

enum {
    PAGE = 4096,
    COMMAND_WORDS = 4,
    COMMANDS = PAGE / (8 * COMMAND_WORDS)
};

static uint8_t configuration[LPIS] __attribute__((aligned(PAGE)));
static uint8_t pending[(1u << NUMBER_BITS) / 8] __attribute__((aligned(65536)));
static uint8_t devices[PAGE] __attribute__((aligned(PAGE)));
static uint8_t collections[PAGE] __attribute__((aligned(PAGE)));
/* Of the one device, for two events. */
static uint8_t translations[256] __attribute__((aligned(256)));
static volatile uint64_t commands[COMMANDS][COMMAND_WORDS] __attribute__((aligned(PAGE)));
static unsigned command_count;

static void command(uint64_t first, uint64_t second, uint64_t third)
{
    volatile uint64_t *words = commands[command_count++];

    words[0] = first;
    words[1] = second;
    words[2] = third;
    words[3] = 0;
}

static void run_commands(void)
{
    uint64_t end = command_count * sizeof commands[0];

    __asm volatile("dsb sy" ::: "memory");
    LONG_WORD(COMMAND_WRITE) = end;
    while (LONG_WORD(COMMAND_READ) != end) {
    }
}

/* Gives each kind of table its page. */
static void place_tables(void)
{
    unsigned i;

    for (i = 0; i < TABLES; i++) {
        unsigned type = (unsigned)(LONG_WORD(TABLE_BASE + 8 * i) >> 56) & 7;

        if (type == TABLE_TYPE_DEVICES) {
            LONG_WORD(TABLE_BASE + 8 * i) = VALID | (uintptr_t)devices;
        } else if (type == TABLE_TYPE_COLLECTIONS) {
            LONG_WORD(TABLE_BASE + 8 * i) = VALID | (uintptr_t)collections;
        }
    }
}

struct its_message its_open(uint32_t requester, uint8_t priority)
{
    const struct its_message message = {.address = TRANSLATER, .data = 0};
    uint64_t device = (uint64_t)requester << 32;

    configuration[0] = (uint8_t)(priority | LPI_ENABLE);
    LONG_WORD(CONFIGURATION_BASE) = (uintptr_t)configuration | (NUMBER_BITS - 1);
    LONG_WORD(PENDING_BASE) = (uintptr_t)pending | PENDING_IS_ZERO;
    WORD(REDISTRIBUTOR_CONTROL) |= ENABLE_LPIS;
    place_tables();
    LONG_WORD(COMMAND_BASE) = VALID | (uintptr_t)commands;
    LONG_WORD(COMMAND_WRITE) = 0;
    WORD(SERVICE_CONTROL) = 1;
    /* Event 0 of the device goes to collection 0, that to CPU 0. */
    command(COMMAND_MAP_COLLECTION, 0, VALID);
    command(COMMAND_MAP_DEVICE | device, 0, VALID | (uintptr_t)translations);
    command(COMMAND_MAP_INTERRUPT | device, (uint64_t)MESSAGE_INTERRUPT << 32, 0);
    command(COMMAND_INVALIDATE | device, 0, 0);
    command(COMMAND_SYNC, 0, 0);
    run_commands();
    return message;
}
