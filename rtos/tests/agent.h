/* A core that asks its agent, and an agent that answers as a test says, while the core waits. */
#ifndef AGENT_H
#define AGENT_H

#include "hythe_services.h"
#include "services.h"
#include "world.h"

enum {
    OPEN_MAX = 2,
    PAGE = 4096,
    PAGES = 16,
    REPLY = 2,
    GIVEN_UP = 3,
    WAIT_MS = 200
};

/* OUT is the endpoint of the services, OUT2 that of long messages. */
struct fixture {
    struct world world;
    struct hythe_services services;
    struct hythe_open_request open[OPEN_MAX];
    struct hythe_open_request open_messages[OPEN_MAX];
    uint8_t *area;
};

/* How the agent answers the next calls. */
struct agent {
    /* Of the header; 0 as method: that of the call, as length: what is there. */
    uint32_t words[HYTHE_CALL_WORDS];
    uint8_t bytes[128];
    uint32_t byte_count;
    uint32_t kind;
    /* Calls that are still answered. */
    uint32_t left;
    /* Calls before that: they are answered with -HYTHE_EAGAIN. */
    uint32_t refuses;
    /* The calls that came: the last one first; what came behind its header, and over what. */
    uint32_t came[4][HYTHE_CALL_WORDS];
    uint8_t payload[128];
    uint32_t endpoint;
    uint32_t count;
    /* What it was told without being asked: the last header, and how often. */
    uint32_t told[HYTHE_CALL_WORDS];
    uint32_t told_count;
};

extern struct agent agent;

struct hythe_services_config config_of(struct fixture *fixture);
void fixture_make(struct fixture *fixture);
void fixture_free(struct fixture *fixture);

/* Gives the core an empty slot for a call. */
void supply(struct fixture *fixture, uint32_t endpoint);

/* Takes what has come, and answers. */
void agent_answer(struct world *world);

/* The next call is answered so. */
void will(struct fixture *fixture, int32_t result, uint32_t first, uint32_t second, uint32_t third);

uint32_t violations(struct fixture *fixture);

#endif
