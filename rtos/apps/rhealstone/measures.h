/*
 * What is measured. Each function takes the samples that the sampler still wants; 0: the tasks
 * hung, or broke a rule.
 */
#ifndef MEASURES_H
#define MEASURES_H

#include "sample.h"

int measure_task_switch(struct sampler *sampler);
int measure_preemption(struct sampler *sampler);
int measure_interrupt_latency(struct sampler *sampler);
int measure_semaphore_shuffle(struct sampler *sampler);
int measure_deadlock_break(struct sampler *sampler);
int measure_message_latency(struct sampler *sampler);
int measure_timer_jitter(struct sampler *sampler);
int measure_interrupt_request_cost(struct sampler *sampler);
int measure_clock_read(struct sampler *sampler);

#endif
