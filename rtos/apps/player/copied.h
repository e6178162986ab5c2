/*
 * `hythe play --method copy`: what an RPMsg application does. Compressed bytes are copied out of
 * fragments into memory of the core and decoded there; what was decoded is copied into fragments.
 *
 * Linux sends the memory of the fragments as one buffer over an endpoint of each decoder. While it
 * is held, its task serves that and nothing else.
 */
#ifndef COPIED_H
#define COPIED_H

#include "frames.h"
#include "h264.h"
#include "hythe_rt.h"
#include "hythe_task.h"

/* The longest access unit with its number; README.md. */
#define COPIED_UNIT_BYTES_MAX (256u * 1024u)
/* As much as a slot takes. */
#define COPIED_PICTURE_BYTES_MAX (1u << 20)

struct copied {
    /* Where the memory comes from. */
    struct hythe_endpoint *memory;
    const struct hythe_port *port;
};

/*
 * If memory has come, decodes what travels through it until Linux says that it is over, has left,
 * or the task is to stop. Else returns at once.
 */
void copied_frames(const struct copied *copied, const struct hythe_task *task);
void copied_units(const struct copied *copied, const struct hythe_task *task, struct h264 *h264);

#endif
