/*
 * Meeting: configuration, answers, refusals. What happens when one side starts again:
 * test_sessions.c.
 */
#include <string.h>

#include "hythe_result_text.h"
#include "test.h"
#include "world.h"

static int start_with(void (*change)(struct hythe_link_config *))
{
    struct world world;
    struct hythe_link_config config;
    int result;

    world_make(&world);
    config = world.config;
    change(&config);
    result = hythe_link_start(&world.link, &config);
    world_free(&world);
    return result;
}

static const struct hythe_endpoint_config BAD_ENDPOINTS[] = {
    {"", HYTHE_TO_CORE, 0, 0, 0, 0},
    {"three and thirty bytes long, oh my", HYTHE_TO_CORE, 0, 0, 0, 0},
    {"name", 3, 0, 0, 0, 0},
    {NULL, HYTHE_TO_CORE, 0, 0, 0, 0},
    {"name", HYTHE_TO_CORE, 0, 0, 0, 3},
};

static void no_change(struct hythe_link_config *config)
{
    (void)config;
}
static void no_link(struct hythe_link_config *config)
{
    config->link = NULL;
}
static void crooked_link(struct hythe_link_config *config)
{
    config->link = (volatile uint8_t *)config->link + 32;
}
static void tiny_link(struct hythe_link_config *config)
{
    config->link_bytes = 383;
}
static void no_region(struct hythe_link_config *config)
{
    config->region = NULL;
}
static void no_name(struct hythe_link_config *config)
{
    config->name = "";
}
static void no_endpoints(struct hythe_link_config *config)
{
    config->endpoint_count = 0;
}
static void too_many_endpoints(struct hythe_link_config *config)
{
    config->endpoint_count = HYTHE_MAX_ENDPOINTS + 1;
}
static void empty_endpoint_name(struct hythe_link_config *config)
{
    config->endpoints = &BAD_ENDPOINTS[0];
    config->endpoint_count = 1;
}
static void long_endpoint_name(struct hythe_link_config *config)
{
    config->endpoints = &BAD_ENDPOINTS[1];
    config->endpoint_count = 1;
}
static void unknown_direction(struct hythe_link_config *config)
{
    config->endpoints = &BAD_ENDPOINTS[2];
    config->endpoint_count = 1;
}
static void missing_endpoint_name(struct hythe_link_config *config)
{
    config->endpoints = &BAD_ENDPOINTS[3];
    config->endpoint_count = 1;
}
static void unknown_kind(struct hythe_link_config *config)
{
    config->endpoints = &BAD_ENDPOINTS[4];
    config->endpoint_count = 1;
}
static void no_port(struct hythe_link_config *config)
{
    config->port = NULL;
}

static void no_wait(struct hythe_link_config *config)
{
    static struct hythe_port port;

    port = *config->port;
    port.wait = NULL;
    config->port = &port;
}
static void half_a_lock(struct hythe_link_config *config)
{
    static struct hythe_port port;

    port = *config->port;
    port.lock = NULL;
    config->port = &port;
}

static const struct {
    void (*change)(struct hythe_link_config *);
    int error;
} BAD_CONFIGS[] = {
    {no_link, HYTHE_E_LINK_ADDRESS},
    {crooked_link, HYTHE_E_LINK_ADDRESS},
    {tiny_link, HYTHE_E_LINK_BYTES},
    {no_region, HYTHE_E_REGION},
    {no_name, HYTHE_E_NAME},
    {no_endpoints, HYTHE_E_ENDPOINT_COUNT},
    {too_many_endpoints, HYTHE_E_ENDPOINT_COUNT},
    {empty_endpoint_name, HYTHE_E_ENDPOINT_NAME},
    {long_endpoint_name, HYTHE_E_ENDPOINT_NAME},
    {missing_endpoint_name, HYTHE_E_ENDPOINT_NAME},
    {unknown_direction, HYTHE_E_ENDPOINT_DIRECTION},
    {unknown_kind, HYTHE_E_ENDPOINT_KIND},
    {no_port, HYTHE_E_PORT_CALLS},
    {no_wait, HYTHE_E_PORT_CALLS},
    {half_a_lock, HYTHE_E_PORT_LOCK},
};

static void a_bad_configuration_is_refused_with_the_field(void)
{
    struct world world;
    size_t i;

    CHECK_EQUAL(start_with(no_change), HYTHE_OK);
    for (i = 0; i < sizeof BAD_CONFIGS / sizeof BAD_CONFIGS[0]; i++) {
        CHECK_EQUAL(start_with(BAD_CONFIGS[i].change), BAD_CONFIGS[i].error);
    }
    world_make(&world);
    CHECK_EQUAL(hythe_link_start(NULL, &world.config), HYTHE_E_ARGUMENT);
    CHECK_EQUAL(hythe_link_start(&world.link, NULL), HYTHE_E_ARGUMENT);
    world_free(&world);
}

static void each_result_has_a_text_of_its_own(void)
{
    static const int RESULTS[] = {1,   0,   -1,  -2,  -3,  -4,  -5,  -6,  -7,  -8,  -9,  -10,
                                  -11, -16, -17, -18, -19, -20, -21, -22, -23, -24, -25, -99};
    size_t i;
    size_t j;

    for (i = 0; i < sizeof RESULTS / sizeof RESULTS[0]; i++) {
        for (j = 0; j < i; j++) {
            CHECK(strcmp(hythe_result_text(RESULTS[i]), hythe_result_text(RESULTS[j])) != 0);
        }
    }
    CHECK(strcmp(hythe_result_text(-12), hythe_result_text(-99)) == 0);
}

static void the_core_writes_nothing_while_there_is_no_linux(void)
{
    struct world world;
    size_t i;
    unsigned sum = 0;

    world_make(&world);
    CHECK_EQUAL(hythe_link_start(&world.link, &world.config), HYTHE_OK);
    CHECK_EQUAL(hythe_link_wait(&world.link, 25), HYTHE_E_DOWN);
    CHECK_EQUAL(world.waits, 3);
    CHECK_EQUAL(world.rings, 0);
    for (i = 0; i < world.link_bytes; i++) {
        sum |= world.link_memory[i];
    }
    CHECK_EQUAL(sum, 0);
    world_free(&world);
}

static void publish_linux(struct world *world)
{
    if (world->side.session == 0) {
        linux_publish(&world->side);
    }
}

static void a_late_linux_is_answered(void)
{
    struct world world;
    char name[33] = "";
    uint32_t i;

    world_make(&world);
    world.during_wait = publish_linux;
    CHECK_EQUAL(hythe_link_start(&world.link, &world.config), HYTHE_OK);
    CHECK_EQUAL(hythe_link_wait(&world.link, 1000), HYTHE_OK);
    CHECK_EQUAL(world.waits, 1);
    CHECK_EQUAL(linux_state(&world.side), 1);
    CHECK_EQUAL(load(core_word(&world.side, 0)), 0x434C5948);
    CHECK_EQUAL(load(core_word(&world.side, 8)), 1);
    CHECK_EQUAL(load(core_word(&world.side, 16)), 0);
    CHECK_EQUAL(load(core_word(&world.side, 24)), WORLD_ENDPOINTS);
    CHECK_EQUAL(world.rings, 1);
    CHECK_EQUAL(load(core_word(&world.side, 64)), 1);
    CHECK_EQUAL(load(core_word(&world.side, 68)), 0);
    for (i = 0; i < 32; i += 4) {
        uint32_t word = load(core_word(&world.side, 32 + i));
        memcpy(name + i, &word, 4);
    }
    CHECK(strcmp(name, "core under test") == 0);
    /* The record of "out". */
    CHECK_EQUAL(load(core_word(&world.side, 128 + 64)), 'o' | 'u' << 8 | 't' << 16);
    CHECK_EQUAL(load(core_word(&world.side, 128 + 64 + 32)), 2);
    CHECK_EQUAL(load(core_word(&world.side, 128 + 64 + 36)), 3840);
    CHECK_EQUAL(load(core_word(&world.side, 128 + 64 + 40)), 7);
    CHECK_EQUAL(load(core_word(&world.side, 128 + 64 + 44)), 0);
    world_free(&world);
}

/* Publishes, spoils one word, and expects this refusal. */
static void refused(uint32_t offset, uint32_t value, uint32_t reason)
{
    struct world world;

    world_make(&world);
    linux_publish(&world.side);
    store(linux_word(&world.side, offset), value);
    CHECK_EQUAL(hythe_link_start(&world.link, &world.config), HYTHE_OK);
    CHECK_EQUAL(hythe_link_service(&world.link), HYTHE_E_REFUSED);
    CHECK_EQUAL(linux_state(&world.side), 2);
    CHECK_EQUAL(load(core_word(&world.side, 16)), reason);
    CHECK_EQUAL(load(core_word(&world.side, 24)), 0);
    CHECK(world.rings >= 1);
    world_free(&world);
}

static void what_does_not_fit_is_refused_with_the_reason(void)
{
    refused(4, 1, 1);
    refused(4, 3, 1);
    refused(8, 32, 2);
    refused(8, 0xFFFFFFFFu, 2);
    refused(8, 0x80000000u, 2);
    refused(12, 0xFFFFFFFFu, 2);
    refused(12, 4, 2);
    refused(16, 3, 3);
    refused(16, 0, 2);
    refused(20, 24, 2);
    refused(24, 256, 2);
    refused(28, 0x7FFFFFFF, 2);
    refused(32, 5, 2);
    refused(36, 0, 2);
    refused(44, 0, 2);
    refused(44, 9, 4);
    refused(44, 0xFFFFFFFFu, 4);
    refused(128, 0, 2);
    refused(132, 0xFFFFFFFFu, 2);
}

static void after_a_refusal_a_better_agent_is_accepted(void)
{
    struct world world;

    world_make(&world);
    world.side.capacity = 3;
    linux_publish(&world.side);
    CHECK_EQUAL(hythe_link_start(&world.link, &world.config), HYTHE_OK);
    CHECK_EQUAL(hythe_link_service(&world.link), HYTHE_E_REFUSED);
    world.side.capacity = WORLD_CAPACITY;
    linux_publish(&world.side);
    CHECK_EQUAL(hythe_link_service(&world.link), HYTHE_OK);
    CHECK_EQUAL(linux_state(&world.side), 1);
    world_free(&world);
}

static void a_wrong_magic_is_nobody(void)
{
    struct world world;

    world_make(&world);
    linux_publish(&world.side);
    store(linux_word(&world.side, 0), 0);
    CHECK_EQUAL(hythe_link_start(&world.link, &world.config), HYTHE_OK);
    CHECK_EQUAL(hythe_link_service(&world.link), HYTHE_E_DOWN);
    store(linux_word(&world.side, 0), 0x4C4C5948);
    CHECK_EQUAL(hythe_link_service(&world.link), HYTHE_OK);
    world_free(&world);
}

static void endpoints_are_found_by_number(void)
{
    struct world world;

    world_make_connected(&world);
    CHECK(hythe_link_endpoint(&world.link, 0) != NULL);
    CHECK(hythe_link_endpoint(&world.link, WORLD_ENDPOINTS) == NULL);
    CHECK(hythe_link_endpoint(&world.link, 0xFFFFFFFFu) == NULL);
    world_free(&world);
}

void test_link(void)
{
    RUN(a_bad_configuration_is_refused_with_the_field);
    RUN(each_result_has_a_text_of_its_own);
    RUN(the_core_writes_nothing_while_there_is_no_linux);
    RUN(a_late_linux_is_answered);
    RUN(what_does_not_fit_is_refused_with_the_reason);
    RUN(after_a_refusal_a_better_agent_is_accepted);
    RUN(a_wrong_magic_is_nobody);
    RUN(endpoints_are_found_by_number);
}
