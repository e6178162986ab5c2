/* The same exchange over Hythe: what comes over `ping` is answered over `pong` (README.md). */
#ifndef ECHO_H
#define ECHO_H

#include "hythe_rt.h"
#include "order.h"

/*
 * Answers each buffer until an empty one comes, or Linux leaves. Holds no buffer afterwards. One
 * task only.
 */
void echo_run(const struct order *order, struct hythe_endpoint *ping, struct hythe_endpoint *pong);

#endif
