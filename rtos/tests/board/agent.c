/*
 * The agent of the board tests: files, child, doorbell, console. Called by main.c. Leaves nothing
 * behind after agent_end().
 */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ivshmem.h"

/* How long a child may take to connect; QEMU under load takes a second. */
#define CONNECT_MS 20000

uint64_t agent_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int failed(const char *what)
{
    perror(what);
    return 0;
}

static void path_of(const struct agent *agent, const char *name, char path[2 * TEXT_MAX])
{
    snprintf(path, 2 * TEXT_MAX, "%s/%s", agent->folder, name);
}

static int make_file(struct agent *agent, int index)
{
    const struct shared_file *file = &agent->board.file[index];
    char path[2 * TEXT_MAX];
    int descriptor;

    path_of(agent, file->name, path);
    descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (descriptor < 0 || posix_fallocate(descriptor, 0, file->bytes) != 0) {
        return failed(path);
    }
    agent->memory[index] =
        mmap(NULL, file->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    close(descriptor);
    return agent->memory[index] != MAP_FAILED ? 1 : failed(path);
}

static uint8_t *place(const struct agent *agent, const struct placed *placed)
{
    int i;

    for (i = 0; i < agent->board.file_count; i++) {
        if (strcmp(agent->board.file[i].name, placed->file) == 0) {
            return agent->memory[i] + placed->offset;
        }
    }
    return NULL;
}

static int listen_for_core(struct agent *agent)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    snprintf(address.sun_path, sizeof address.sun_path, "%.90s/doorbell", agent->folder);
    agent->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(agent->listener, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(agent->listener, 1) != 0) {
        return failed(address.sun_path);
    }
    return 1;
}

static void describe_linux_side(struct agent *agent)
{
    struct linux_side *side = &agent->side;
    int i;

    side->link = agent->link;
    side->line_bytes = agent->board.line_bytes;
    side->section_bytes = agent->board.link.bytes / 2;
    side->endpoints = agent->board.endpoints;
    side->ports = agent->board.ports;
    side->capacity = agent->board.capacity;
    side->window = side->capacity / 2;
    side->region = 1;
    side->region_bytes = agent->board.region.bytes;
    for (i = 0; i < agent->board.class_count; i++) {
        linux_add_class(side, agent->board.slot_bytes[i], agent->board.slot_count[i]);
    }
}

int agent_begin(struct agent *agent, const char *folder_of_images, const char *app)
{
    static char image[2 * TEXT_MAX];
    char path[2 * TEXT_MAX];
    int i;

    memset(agent, 0, sizeof *agent);
    agent->doorbell = agent->ring = agent->rung = agent->console = agent->listener = -1;
    snprintf(path, sizeof path, "%s/board.toml", folder_of_images);
    snprintf(image, sizeof image, "%s/%s.elf", folder_of_images, app);
    agent->image = image;
    snprintf(agent->folder, sizeof agent->folder, "/dev/shm/hythe-board-test-XXXXXX");
    if (!board_file_read(&agent->board, path) || mkdtemp(agent->folder) == NULL) {
        return 0;
    }
    for (i = 0; i < agent->board.file_count; i++) {
        if (!make_file(agent, i)) {
            return 0;
        }
    }
    agent->region = place(agent, &agent->board.region);
    agent->link = place(agent, &agent->board.link);
    if (agent->region == NULL || agent->link == NULL || !listen_for_core(agent)) {
        return 0;
    }
    describe_linux_side(agent);
    return 1;
}

void agent_end(struct agent *agent)
{
    char path[2 * TEXT_MAX];
    int i;

    if (agent->child > 0) {
        agent_stop_core(agent, SIGKILL);
    }
    for (i = 0; i < agent->board.file_count; i++) {
        munmap(agent->memory[i], agent->board.file[i].bytes);
        path_of(agent, agent->board.file[i].name, path);
        unlink(path);
    }
    close(agent->listener);
    path_of(agent, "doorbell", path);
    unlink(path);
    rmdir(agent->folder);
}

/* Replaces {image} and {doorbell} and the names of files. */
static char *expand(const struct agent *agent, const char *argument)
{
    char *expanded = NULL;
    const char *open = strchr(argument, '{');
    const char *close = open != NULL ? strchr(open, '}') : NULL;
    char name[TEXT_MAX];
    char path[2 * TEXT_MAX];

    if (close == NULL) {
        return strdup(argument);
    }
    snprintf(name, sizeof name, "%.*s", (int)(close - open - 1), open + 1);
    if (strcmp(name, "image") == 0) {
        snprintf(path, sizeof path, "%s", agent->image);
    } else {
        path_of(agent, name, path);
    }
    if (asprintf(&expanded, "%.*s%s%s", (int)(open - argument), argument, path, close + 1) < 0) {
        abort();
    }
    return expanded;
}

static int rings_by_events(const struct agent *agent)
{
    return strcmp(agent->board.doorbell, "ivshmem") == 0;
}

static void become_core(const struct agent *agent, int console)
{
    char *arguments[ARGS_MAX + 2];
    int silence = open("/dev/null", O_RDONLY);
    int i;

    arguments[0] = expand(agent, agent->board.command);
    for (i = 0; i < agent->board.arg_count; i++) {
        arguments[i + 1] = expand(agent, agent->board.args[i]);
    }
    arguments[i + 1] = NULL;
    /* Such a core may outlive its agent, so the agent binds it; others are bound by their board. */
    if (rings_by_events(agent) && prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
        _exit(127);
    }
    dup2(silence, STDIN_FILENO);
    dup2(console, STDOUT_FILENO);
    execvp(arguments[0], arguments);
    perror(arguments[0]);
    _exit(127);
}

int agent_start_core(struct agent *agent)
{
    struct pollfd ready = {.fd = agent->listener, .events = POLLIN};
    int console[2];

    if (pipe2(console, O_CLOEXEC) != 0) {
        return failed("pipe");
    }
    fflush(NULL);
    agent->child = fork();
    if (agent->child == 0) {
        become_core(agent, console[1]);
    }
    close(console[1]);
    agent->console = console[0];
    fcntl(agent->console, F_SETFL, O_NONBLOCK);
    if (poll(&ready, 1, CONNECT_MS) != 1) {
        fprintf(stderr, "the core did not connect to its doorbell\n");
        return 0;
    }
    agent->doorbell = accept4(agent->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (agent->doorbell < 0) {
        return failed("accept");
    }
    agent->ring = agent->rung = agent->doorbell;
    return !rings_by_events(agent) || ivshmem_greet(agent->doorbell, &agent->ring, &agent->rung) ||
           failed("greet");
}

static void close_core(struct agent *agent)
{
    agent_show_console(agent);
    close(agent->console);
    close(agent->doorbell);
    if (rings_by_events(agent)) {
        close(agent->ring);
        close(agent->rung);
    }
    agent->child = 0;
    agent->console = agent->doorbell = agent->ring = agent->rung = -1;
}

int agent_stop_core(struct agent *agent, int signal)
{
    int status = 0;

    kill(agent->child, signal);
    waitpid(agent->child, &status, 0);
    close_core(agent);
    return status;
}

int agent_core_ended(struct agent *agent, int timeout_ms)
{
    int waited;

    for (waited = 0; waited < timeout_ms; waited += 10) {
        if (waitpid(agent->child, NULL, WNOHANG) == agent->child) {
            close_core(agent);
            return 1;
        }
        usleep(10000);
    }
    return 0;
}

void agent_ring(struct agent *agent)
{
    uint64_t event = 1;
    ssize_t sent = rings_by_events(agent) ? write(agent->ring, &event, sizeof event)
                                          : send(agent->ring, "!", 1, MSG_NOSIGNAL);

    (void)sent;
}

void agent_wait(struct agent *agent, int timeout_ms)
{
    struct pollfd bell = {.fd = agent->rung, .events = POLLIN};
    char bytes[256];

    if (poll(&bell, 1, timeout_ms) > 0) {
        agent->rings++;
        /* Of an event there are eight bytes, and then none. */
        while (read(agent->rung, bytes, sizeof bytes) == (ssize_t)sizeof bytes) {
        }
    }
}

void agent_show_console(struct agent *agent)
{
    char text[512];
    ssize_t count;

    while ((count = read(agent->console, text, sizeof text)) > 0) {
        printf("%.*s", (int)count, text);
    }
}
