/*
 * The Linux side of a link for tests, from spec/link.md only. Called by the unit tests and the
 * board tests. Checks nothing.
 */
#include "linux_side.h"

static uint8_t *core_section(const struct linux_side *side)
{
    return side->link + side->section_bytes;
}

volatile uint32_t *linux_word(const struct linux_side *side, uint32_t offset)
{
    return (volatile uint32_t *)(void *)(side->link + offset);
}

volatile uint32_t *core_word(const struct linux_side *side, uint32_t offset)
{
    return (volatile uint32_t *)(void *)(core_section(side) + offset);
}

static uint32_t number(const struct linux_side *side, uint32_t flow)
{
    return flow % LINUX_ENDPOINTS_MAX * side->ports + flow / LINUX_ENDPOINTS_MAX;
}

static uint32_t core_flow_base(const struct linux_side *side)
{
    return 2 * side->line_bytes +
           (64 * side->endpoints + side->line_bytes - 1) / side->line_bytes * side->line_bytes;
}

volatile uint32_t *linux_flow(const struct linux_side *side, uint32_t flow, uint32_t offset)
{
    return linux_word(side, 3 * side->line_bytes + side->line_bytes * number(side, flow) + offset);
}

volatile uint32_t *core_flow(const struct linux_side *side, uint32_t flow, uint32_t offset)
{
    return core_word(side, core_flow_base(side) + side->line_bytes * number(side, flow) + offset);
}

static uint32_t entry_at(const struct linux_side *side, uint32_t flow, uint32_t counter)
{
    return side->line_bytes * side->endpoints * side->ports +
           (number(side, flow) * side->capacity + counter % side->capacity) * 32;
}

volatile uint32_t *linux_entry(const struct linux_side *side, uint32_t flow, uint32_t counter)
{
    return linux_word(side, 3 * side->line_bytes + entry_at(side, flow, counter));
}

volatile uint32_t *core_entry(const struct linux_side *side, uint32_t flow, uint32_t counter)
{
    return core_word(side, core_flow_base(side) + entry_at(side, flow, counter));
}

uint32_t load(const volatile uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

void store(volatile uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

void linux_add_class(struct linux_side *side, uint32_t slot_bytes, uint32_t slot_count)
{
    struct slot_class *added = &side->slot_class[side->classes];

    added->slot_bytes = slot_bytes;
    added->slot_count = slot_count;
    added->first_slot = 0;
    added->region_offset = 0;
    if (side->classes > 0) {
        const struct slot_class *before = added - 1;
        added->first_slot = before->first_slot + before->slot_count;
        added->region_offset = before->region_offset + before->slot_bytes * before->slot_count;
    }
    side->classes++;
}

void linux_publish(struct linux_side *side)
{
    uint32_t header[10] = {0x4C4C5948u,      2,
                           side->line_bytes, side->section_bytes,
                           side->endpoints,  side->capacity,
                           side->region,     side->region_bytes,
                           side->classes,    256};
    uint32_t i;

    for (i = 0; i < 10; i++) {
        store(linux_word(side, 4 * i), header[i]);
    }
    for (i = 0; i < side->classes; i++) {
        store(linux_word(side, 2 * side->line_bytes + 16 * i), side->slot_class[i].slot_bytes);
        store(linux_word(side, 2 * side->line_bytes + 16 * i + 4), side->slot_class[i].slot_count);
        store(linux_word(side, 2 * side->line_bytes + 16 * i + 8), side->slot_class[i].first_slot);
        store(linux_word(side, 2 * side->line_bytes + 16 * i + 12),
              side->slot_class[i].region_offset);
    }
    store(linux_word(side, 44), side->ports);
    store(linux_word(side, side->line_bytes + 4), 1);
    side->session = load(linux_word(side, 40)) + 1;
    store(linux_word(side, 40), side->session);
}

static void raise_changes(const struct linux_side *side)
{
    volatile uint32_t *changes = linux_word(side, side->line_bytes + 8);

    store(changes, load(changes) + 1);
}

uint32_t linux_state(const struct linux_side *side)
{
    uint32_t state = load(core_word(side, 12));

    return load(core_word(side, 20)) == side->session ? state : 0;
}

void linux_attach(struct linux_side *side, uint32_t flow)
{
    side->last[flow]++;
    side->attached[flow] = side->last[flow];
    side->met[flow] = 0;
    side->tail[flow] = load(linux_flow(side, flow, 8));
    store(linux_flow(side, flow, 16), side->window);
    store(linux_flow(side, flow, 36), !side->polls);
    store(linux_flow(side, flow, 4), side->tail[flow]);
    store(linux_flow(side, flow, 0), side->attached[flow]);
    raise_changes(side);
}

void linux_poll(struct linux_side *side, int polls)
{
    uint32_t number;

    side->polls = polls;
    for (number = 0; number < side->endpoints * side->ports; number++) {
        uint32_t flow = LINUX_FLOW(number / side->ports, number % side->ports);
        store(linux_flow(side, flow, 36), !polls);
    }
}

void linux_detach(struct linux_side *side, uint32_t flow)
{
    side->attached[flow] = 0;
    store(linux_flow(side, flow, 0), 0);
    raise_changes(side);
}

int linux_attach_done(struct linux_side *side, uint32_t flow)
{
    if (side->attached[flow] == 0 || load(core_flow(side, flow, 0)) != side->attached[flow]) {
        return 0;
    }
    if (side->met[flow]) {
        return 1;
    }
    side->met[flow] = 1;
    side->head[flow] = load(core_flow(side, flow, 4));
    store(linux_flow(side, flow, 28), load(core_flow(side, flow, 20)));
    store(linux_flow(side, flow, 32), load(core_flow(side, flow, 24)));
    store(linux_flow(side, flow, 12), side->head[flow]);
    return 1;
}

void linux_push(struct linux_side *side, uint32_t flow, struct descriptor descriptor)
{
    volatile uint32_t *entry = linux_entry(side, flow, side->tail[flow]);

    entry[0] = descriptor.place;
    entry[1] = descriptor.generation;
    entry[2] = descriptor.offset;
    entry[3] = descriptor.length;
    entry[4] = descriptor.account;
    entry[5] = descriptor.references;
    entry[6] = descriptor.tag[0];
    entry[7] = descriptor.tag[1];
    side->tail[flow]++;
    store(linux_flow(side, flow, 8), side->tail[flow]);
}

int linux_take(struct linux_side *side, uint32_t flow, struct descriptor *descriptor)
{
    volatile uint32_t *entry = core_entry(side, flow, side->head[flow]);

    if (load(core_flow(side, flow, 8)) == side->head[flow]) {
        return 0;
    }
    descriptor->place = entry[0];
    descriptor->generation = entry[1];
    descriptor->offset = entry[2];
    descriptor->length = entry[3];
    descriptor->account = entry[4];
    descriptor->references = entry[5];
    descriptor->tag[0] = entry[6];
    descriptor->tag[1] = entry[7];
    side->head[flow]++;
    store(linux_flow(side, flow, 12), side->head[flow]);
    return 1;
}

uint64_t linux_raise(struct linux_side *side, uint32_t flow, uint64_t events)
{
    uint64_t flipped = 0;
    uint32_t half;

    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    for (half = 0; half < 2; half++) {
        volatile uint32_t *raised = linux_flow(side, flow, 20 + 4 * half);
        uint32_t pending = load(raised) ^ load(core_flow(side, flow, 28 + 4 * half));
        uint32_t flip = (uint32_t)(events >> 32 * half) & ~pending;
        store(raised, load(raised) ^ flip);
        flipped |= (uint64_t)flip << 32 * half;
    }
    return flipped;
}

uint64_t linux_take_events(struct linux_side *side, uint32_t flow)
{
    uint64_t events = 0;
    uint32_t half;

    for (half = 0; half < 2; half++) {
        volatile uint32_t *seen = linux_flow(side, flow, 28 + 4 * half);
        uint32_t raised = load(core_flow(side, flow, 20 + 4 * half));
        events |= (uint64_t)(raised ^ load(seen)) << 32 * half;
        store(seen, raised);
    }
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return events;
}

struct descriptor linux_slot(const struct linux_side *side, uint32_t class_index, uint32_t index,
                             uint32_t length)
{
    struct descriptor descriptor = {side->region << 24 |
                                        (side->slot_class[class_index].first_slot + index),
                                    1,
                                    256,
                                    length,
                                    3,
                                    side->ports,
                                    {0, 0}};

    return descriptor;
}

uint32_t linux_slot_offset(const struct linux_side *side, uint32_t place)
{
    uint32_t slot = place & 0xFFFFFFu;
    uint32_t i;

    for (i = 0; i + 1 < side->classes && slot >= side->slot_class[i + 1].first_slot; i++) {
    }
    return side->slot_class[i].region_offset +
           (slot - side->slot_class[i].first_slot) * side->slot_class[i].slot_bytes;
}
