/*
 * The doorbell socket and its signal handler, the hosted board's only interrupt beside the tick.
 * Called by start.c and, for ringing, by the FreeRTOS port of the library. Never blocks.
 */
#define _GNU_SOURCE

#include "doorbell.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "FreeRTOS.h"
#include "task.h"

#include "board.h"

static int doorbell = -1;

/*
 * 0: rings were read. The agent closed its end, or its end is gone: this core has nobody to work
 * for.
 */
static int drain(void)
{
    char bytes[256];
    ssize_t count;

    do {
        count = recv(doorbell, bytes, sizeof bytes, MSG_DONTWAIT);
    } while (count == (ssize_t)sizeof bytes);
    return count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR) ? -1 : 0;
}

/*
 * The interrupt. Like the port's own tick it runs in the thread of the running task: all others
 * block signals. All signals are masked inside, and the critical section keeps a switch to another
 * task from opening them, as the tick handler of the port does with its private counter.
 */
static void on_ring(int signal_number)
{
    int interrupted_errno = errno;

    (void)signal_number;
    if (drain() != 0) {
        _exit(0);
    }
    vPortEnterCritical();
    portYIELD_FROM_ISR(app_bell_from_isr());
    vPortExitCritical();
    errno = interrupted_errno;
}

int doorbell_connect(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (strlen(path) >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    strcpy(address.sun_path, path);
    doorbell = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (doorbell < 0) {
        return -1;
    }
    return connect(doorbell, (const struct sockaddr *)&address, sizeof address);
}

void board_open_doorbell(void)
{
    struct sigaction action = {.sa_handler = on_ring, .sa_flags = SA_RESTART};

    sigfillset(&action.sa_mask);
    if (sigaction(SIGIO, &action, NULL) != 0 || fcntl(doorbell, F_SETOWN, getpid()) != 0 ||
        fcntl(doorbell, F_SETFL, O_ASYNC) != 0) {
        board_fail(__FILE__, __LINE__);
    }
    /* What came in before now raised no signal. */
    (void)kill(getpid(), SIGIO);
}

void board_ring(void)
{
    /* A full socket holds rings enough; a closed one is noticed by the interrupt. */
    (void)send(doorbell, "!", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}
