/*
 * Clock and interrupts for measuring on the hosted board: CLOCK_MONOTONIC, a signal to the own
 * thread, a POSIX timer.
 *
 * Linux schedules this process: what is measured here shows that the program works, and nothing
 * about latency. There is no pin that anybody could watch.
 */
#define _GNU_SOURCE

#include "measure.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "board.h"

#define REQUEST_SIGNAL SIGUSR2
#define ALARM_SIGNAL SIGVTALRM

const struct measure_facts measure_facts = {
    .board = BOARD_NAME,
    .clock = "CLOCK_MONOTONIC",
    .clock_hz = 1000000000,
    .pin = "none",
};

static measure_interrupt on_request;
static measure_alarm on_alarm;
static timer_t timer;
static uint32_t alarm_period;
/* For which instant the last alarm was programmed. */
static uint32_t due;

void measure_start(void)
{
}

uint32_t measure_clock(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint32_t)((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
}

void measure_pin(char edge)
{
    (void)edge;
}

/* All signals are masked in a handler, so that no tick switches tasks in the middle of it. */
static void handle(int signal_number, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};

    sigfillset(&action.sa_mask);
    if (sigaction(signal_number, &action, NULL) != 0) {
        board_fail(__FILE__, __LINE__);
    }
}

static void serve_request(int signal_number)
{
    int interrupted_errno = errno;

    (void)signal_number;
    on_request();
    errno = interrupted_errno;
}

void measure_interrupt_open(measure_interrupt handler)
{
    on_request = handler;
    handle(REQUEST_SIGNAL, serve_request);
}

void measure_interrupt_request(void)
{
    (void)pthread_kill(pthread_self(), REQUEST_SIGNAL);
}

/* Of all signals: a tick in between would switch to a task that has them open. */
static void mask(int how)
{
    sigset_t all;

    sigfillset(&all);
    (void)pthread_sigmask(how, &all, NULL);
}

void measure_interrupt_mask(void)
{
    mask(SIG_BLOCK);
}

void measure_interrupt_unmask(void)
{
    mask(SIG_UNBLOCK);
}

static void ring_alarm(int signal_number)
{
    int interrupted_errno = errno;
    uint32_t now = measure_clock();

    (void)signal_number;
    /* Alarms that merged into one signal were due before this one. */
    due += alarm_period * (1u + (uint32_t)timer_getoverrun(timer));
    on_alarm(now - due);
    errno = interrupted_errno;
}

void measure_timer_start(uint32_t period, measure_alarm handler)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = ALARM_SIGNAL};
    struct itimerspec when = {.it_interval = {.tv_nsec = period}};
    struct timespec now;

    on_alarm = handler;
    alarm_period = period;
    handle(ALARM_SIGNAL, ring_alarm);
    /* By the clock's own time, so that `due` is exact. */
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 ||
        clock_gettime(CLOCK_MONOTONIC, &now) != 0) {
        board_fail(__FILE__, __LINE__);
    }
    due = (uint32_t)((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
    when.it_value = now;
    when.it_value.tv_nsec += period;
    when.it_value.tv_sec += when.it_value.tv_nsec / 1000000000;
    when.it_value.tv_nsec %= 1000000000;
    if (timer_settime(timer, TIMER_ABSTIME, &when, NULL) != 0) {
        board_fail(__FILE__, __LINE__);
    }
}

void measure_timer_stop(void)
{
    (void)timer_delete(timer);
    (void)signal(ALARM_SIGNAL, SIG_IGN);
}
