/* Eight bytes a message, some with a file. */
#include "ivshmem.h"

#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    VERSION = 0,
    /* We are the first peer, the core the second. */
    AGENT = 0,
    CORE = 1,
    /* Precedes the memory's file. */
    MEMORY = -1,
    /* The device insists on some; nobody uses it. */
    MEMORY_BYTES = 4096
};

/* `file` below 0: none. */
static int send_message(int connection, int64_t value, int file)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec data = {&value, sizeof value};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};

    if (file >= 0) {
        struct cmsghdr *header;
        memset(&control, 0, sizeof control);
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof file);
        memcpy(CMSG_DATA(header), &file, sizeof file);
    }
    return sendmsg(connection, &message, MSG_NOSIGNAL) == (ssize_t)sizeof value;
}

int ivshmem_greet(int connection, int *ring, int *rung)
{
    int memory = memfd_create("ivshmem", MFD_CLOEXEC);
    int greeted;

    *ring = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    *rung = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    greeted = ftruncate(memory, MEMORY_BYTES) == 0 && send_message(connection, VERSION, -1) &&
              send_message(connection, CORE, -1) && send_message(connection, MEMORY, memory) &&
              send_message(connection, AGENT, *rung) && send_message(connection, CORE, *ring);
    close(memory);
    return greeted;
}
