/*
 * Starting the link of a core. Included by applications, once each. A configuration that the
 * library refuses is our own mistake: the core ends, with the reason on its console.
 */
#ifndef LINK_START_H
#define LINK_START_H

#include "board.h"
#include "hythe_result_text.h"

static void start_link(struct hythe_link *link, const struct hythe_link_config *config)
{
    static const char WHAT[] = "hythe_link_start: ";
    int result = hythe_link_start(link, config);
    const char *why = hythe_result_text(result);
    size_t bytes = 0;

    if (result == HYTHE_OK) {
        return;
    }
    while (why[bytes] != 0) {
        bytes++;
    }
    board_write(WHAT, sizeof WHAT - 1);
    board_write(why, bytes);
    board_fail(__FILE__, __LINE__);
}

#endif
