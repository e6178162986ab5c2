/*
 * hythe.h: channels between processes over one pool of shared memory, for C and C++ programs on
 * Linux.
 *
 * A pool is made or opened (hythe_pool), this process joins it (hythe_node), and opens ports on
 * named channels:
 *   publish/subscribe   hythe_publisher, hythe_subscriber
 *   request/reply       hythe_client, hythe_server
 *   events              hythe_notifier, hythe_listener
 * One wait for many of them, and for file descriptors: hythe_wait_set.
 * Programs that `hythe run` or each other start as tasks: hythe_task, hythe_task_group.
 * Beside channels there are segments, which a core sees, too: hythe_shmget() and its family return
 * -1 and set errno, as shmget(2) does, and need no node.
 * A message is written once, into a leased buffer (hythe_lease), and received without copying
 * (hythe_sample).
 *
 * Results: 0, or a count, or a negative code HYTHE_E..., which are not those of <errno.h>.
 * hythe_last_error() says what failed, with which value, and what to do.
 * Handles are pointers that this library gives. "Consumes" means: the handle is gone when the call
 * returns, whatever it returns.
 * A lease or sample that was given up is refused with HYTHE_EARGUMENT for the next 255 uses of its
 * place, and never taken for another.
 * Places for results are set to NULL when a call fails. NULL handles and places are refused with
 * HYTHE_EARGUMENT.
 * Threads: unless a type says otherwise, one thread at a time uses a handle; which one does not
 * matter.
 * Time-outs are in nanoseconds, relative; 0 looks without waiting. No call waits without a bound.
 * Fork: a child made by fork() without exec() has copies of its parent's handles. Calls on them are
 * refused with HYTHE_EFORKED, and closing them does nothing. The child may open the pool and join
 * by itself.
 * Signals: with the first pool, a handler for SIGBUS is installed, so that a pool whose file is cut
 * away is an error and not the end of the program: that file reads as zeroes then, and every later
 * call on the pool returns HYTHE_EPOOLLOST. After reading or writing in place, ask
 * hythe_node_check_pool(). Every fault elsewhere goes to the handler that was there before. Never
 * block SIGBUS. Programs with a handler of their own: hythe_sigbus_leave_to_program(). Only
 * hythe_sigbus_settle() and hythe_node_interrupt() may be called from a signal handler.
 * A signal does not end a wait: the call continues behind the handler until its time-out. A handler
 * that is to end it, for Ctrl-C, calls hythe_node_interrupt(): the wait returns HYTHE_EINTERRUPTED.
 * Waits for semaphores and message queues end by a signal as those of POSIX do, with EINTR.
 * Descriptors: where the program has closed 0, 1 or 2, opening a pool puts /dev/null there.
 * Structs begin with their size: initialise options with their function; set the size of results.
 *
 * Made by cbindgen from bindings/c/src, whose documentation this is: change it there; so is the
 * layout. See also hythe(3).
 */
/* clang-format off */

#ifndef HYTHE_H
#define HYTHE_H

#include <fcntl.h>
#include <mqueue.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/shm.h>
#include <sys/types.h>
#include <time.h>
/**
 * The set of one event of a channel, by its number: 0 to HYTHE_EVENTS_MAX - 1. Sets are joined
 * with `|`.
 */
#define HYTHE_EVENT(number) (UINT64_C(1) << (number))

/** An argument is NULL or out of range, belongs to another node, or is a closed handle. */
#define HYTHE_EARGUMENT (-1)

/**
 * A defect of the library was detected, and the call was stopped. The handle can still be closed.
 */
#define HYTHE_EPANIC (-2)

/** A child made by fork used a handle of its parent. */
#define HYTHE_EFORKED (-3)

/** A payload is wanted in place, and the pool was not opened with `trust_peers`. */
#define HYTHE_ETRUST (-4)

/** The system refused something about a file. */
#define HYTHE_EFILE (-5)

/** No permission. */
#define HYTHE_EPERMISSION (-6)

/** The pool's directory is not safe to use. */
#define HYTHE_EUNSAFE (-7)

/** There is no such pool. */
#define HYTHE_ENOPOOL (-8)

/** The pool is in use. */
#define HYTHE_EINUSE (-9)

/** The system has not enough memory for the pool. */
#define HYTHE_ENOROOM (-10)

/** The file is not a pool, or a pool of another version. */
#define HYTHE_ENOTPOOL (-11)

/** A pool of this size or with these limits does not work. */
#define HYTHE_EGEOMETRY (-12)

/** A table of the pool is full. */
#define HYTHE_ETABLEFULL (-13)

/** No buffer of this size is free. */
#define HYTHE_EPOOLFULL (-14)

/** The payload is larger than any buffer. */
#define HYTHE_ETOOLARGE (-15)

/** A buffer has as many references as can be counted. */
#define HYTHE_EREFERENCES (-16)

/** Shared words contradict each other: some participant is broken. */
#define HYTHE_EDAMAGED (-17)

/** Another participant is changing the same object; try again a little later. */
#define HYTHE_EBUSY (-18)

/** The channel carries another type, or is of another kind. */
#define HYTHE_EMISMATCH (-19)

/** A name is not usable. */
#define HYTHE_ENAME (-20)

/** The queue of a subscriber with HYTHE_BLOCK stayed full for as long as the publisher waits. */
#define HYTHE_EBLOCKED (-21)

/** A subscriber that was waited for left or died. */
#define HYTHE_EGONE (-22)

/** Nobody serves the channel. */
#define HYTHE_ENOSERVER (-23)

/** The queues of all servers stayed full for as long as the client waits. */
#define HYTHE_ESERVERSFULL (-24)

/** The client has as many requests open as it may. */
#define HYTHE_EREQUESTS (-25)

/** The server closed or died before it replied. */
#define HYTHE_ESERVERLOST (-26)

/** The server gave the request up without a reply. */
#define HYTHE_EUNANSWERED (-27)

/** No reply came in time; the request is abandoned. */
#define HYTHE_ENOREPLY (-28)

/** The client has no such request open. */
#define HYTHE_ENOTPENDING (-29)

/** A buffer that others hold as well cannot carry a request or a reply. */
#define HYTHE_ESHARED (-30)

/**
 * The RTOS core behind the channel cannot be used for this: the buffer is not in its memory or too
 * large for it, or all of its ports are in use.
 */
#define HYTHE_ECORE (-31)

/** A wait set has the port already. */
#define HYTHE_EATTACHED (-32)

/** The system refused something that a wait set needs. */
#define HYTHE_EWAITSET (-33)

/** The pool cannot be locked into memory. */
#define HYTHE_ENOTLOCKED (-34)

/**
 * The pool's files were truncated, or their file system has no page left. This process can no
 * longer use the pool.
 */
#define HYTHE_EPOOLLOST (-35)

/** The queue to the RTOS core behind the channel stayed full: it gave nothing back in time. */
#define HYTHE_ECOREFULL (-36)

/**
 * The link to the RTOS core behind the channel is down, was lost meanwhile, or has words that are
 * impossible.
 */
#define HYTHE_ECORELOST (-37)

/** The server has no such method. */
#define HYTHE_ENOMETHOD (-38)

/** The result of a call is larger than its caller takes. */
#define HYTHE_ERESULT (-39)

/** The method that was called failed, with a number of its own. */
#define HYTHE_EFAILED (-40)

/** What came is no reply to a call. */
#define HYTHE_ENOTREPLY (-41)

/** The caller of a method is gone: nobody has got the result. */
#define HYTHE_ECALLERLOST (-42)

/** There is no such task, or no such place for one. */
#define HYTHE_ENOTASK (-43)

/** This process is no task, or no job takes it in. */
#define HYTHE_ENOJOB (-44)

/** A task has ended: nothing more comes from it, or reaches it. */
#define HYTHE_EENDED (-45)

/**
 * Too much is kept in this process's memory: for tasks that do not receive, or of messages that
 * this one has not received yet.
 */
#define HYTHE_EKEPT (-46)

/** The task is not in the group, or what members give does not fit together. */
#define HYTHE_EGROUP (-47)

/** The members of a group did not come together in time. */
#define HYTHE_ELATE (-48)

/** The runner of a job refuses, or is gone. */
#define HYTHE_ERUNNER (-49)

/** A program cannot be started. */
#define HYTHE_ENOPROGRAM (-50)

/** The program has ended the wait, by hythe_node_interrupt(). */
#define HYTHE_EINTERRUPTED (-51)

/** An error that has no code of its own yet. */
#define HYTHE_EOTHER (-99)

/** Events of a channel: numbered from 0 to one less; event n is bit n of a set, HYTHE_EVENT(n). */
#define HYTHE_EVENTS_MAX 40

/** Bytes in front of each payload, which travel with the buffer, also when it is forwarded. */
#define HYTHE_HEADROOM_BYTES 256

/** For `spin_ns`: a wait sleeps at once. */
#define HYTHE_NO_SPIN 18446744073709551615ull

/** Classes of slots that a pool can have, the usual ones included. */
#define HYTHE_SLOT_CLASSES_MAX 8

/** Bytes in front of an argument in its lease, of hythe_rpc_lease(). */
#define HYTHE_RPC_HEADER_BYTES 32

/** For hythe_shmget(): bytes that a core can see, too. */
#define HYTHE_SHM_DUAL 65536

/** For hythe_shmget(): the same, and a new segment is made by the core, which may refuse. */
#define HYTHE_SHM_ON_CORE 131072

/**
 * For hythe_sem_open(): counts that a dead holder of a new semaphore had come back at once, and
 * its death is not reported.
 */
#define HYTHE_SEM_RECOVER 536870912

/**
 * When a subscriber's queue is full, the newest message is dropped for it, and counted. The
 * default.
 */
#define HYTHE_DROP_NEWEST 0

/** When a subscriber's queue is full, the publisher waits, for at most `block_ms`. */
#define HYTHE_BLOCK 1

/** When a subscriber's queue is full, the oldest message in it is evicted, and counted. */
#define HYTHE_EVICT_OLDEST 2

/** Instead of a tag: a message with any. */
#define HYTHE_ANY_TAG (-1)

/** Values of hythe_task_group_reduce(): int32_t. */
#define HYTHE_INT32 1

/** int64_t. */
#define HYTHE_INT64 2

/** uint32_t. */
#define HYTHE_UINT32 3

/** uint64_t. */
#define HYTHE_UINT64 4

/** float. */
#define HYTHE_FLOAT 5

/** double. */
#define HYTHE_DOUBLE 6

/** What hythe_task_group_reduce() makes of two values: their sum; integers wrap. */
#define HYTHE_SUM 1

/** Their product; integers wrap. */
#define HYTHE_PRODUCT 2

/** The lesser. */
#define HYTHE_MIN 3

/** The greater. */
#define HYTHE_MAX 4

/**
 * Version of the header. Before 1.0 another minor version is another interface; from then on only
 * another major one.
 */
#define HYTHE_VERSION_MAJOR 0

/** See HYTHE_VERSION_MAJOR. */
#define HYTHE_VERSION_MINOR 1

/** See HYTHE_VERSION_MAJOR. */
#define HYTHE_VERSION_PATCH 0

/** Nanoseconds of a millisecond: `50 * HYTHE_MILLISECOND_NS` is a time-out. */
#define HYTHE_MILLISECOND_NS 1000000ull

/** Nanoseconds of a second. */
#define HYTHE_SECOND_NS 1000000000ull

/** A port may have a message: try to take it. A file descriptor can be read. */
#define HYTHE_READABLE 1

/** A file descriptor can be written. */
#define HYTHE_WRITABLE 2

/** The other end of a file descriptor was closed, or it has an error. */
#define HYTHE_CLOSED 4

/** The client of a request/reply channel. One thread at a time, any thread. */
struct hythe_client;

/** The exclusive right to write a buffer. One thread at a time, any thread. */
struct hythe_lease;

/** The receiving end of an event channel. One thread at a time, any thread. */
struct hythe_listener;

/** A participant: this process in a pool. Any number of threads may use it at once. */
struct hythe_node;

/** The sending end of an event channel. One thread at a time, any thread. */
struct hythe_notifier;

/** A pool, open in this process. Any number of threads may use it at once. */
struct hythe_pool;

/** The publishing end of a channel. One thread at a time, any thread. */
struct hythe_publisher;

/**
 * A request, to be read and answered. One thread at a time, any thread, also after the server was
 * closed.
 */
struct hythe_request;

/**
 * A received buffer. Any number of threads may read it at once. Release or forward it when no
 * other thread uses it.
 */
struct hythe_sample;

/** A semaphore that is open. Any thread. */
struct hythe_sem;

/** The server of a request/reply channel. One thread at a time, any thread. */
struct hythe_server;

/** The receiving end of a channel. One thread at a time, any thread. */
struct hythe_subscriber;

/** This process as a task of a job. One thread at a time, any thread. */
struct hythe_task;

/**
 * A group of tasks, with the members that it had when it was opened. All of them take the same
 * steps in the same order. One thread at a time, any thread.
 */
struct hythe_task_group;

/** A message of a task. Any number of threads may read it at once. */
struct hythe_task_message;

/**
 * Waits for any number of ports and file descriptors at once. One thread at a time, any thread.
 * Level-triggered: each wait reports a port while it has messages. A node may have several wait
 * sets, for different ports.
 */
struct hythe_wait_set;

/** A message of a batch. */
struct hythe_message {
    /** The leased buffer. NULL once it was given away. */
    struct hythe_lease *lease;
    /** How many of its bytes are the payload. */
    size_t bytes;
};

/** The outcome of publishing a message. */
struct hythe_published {
    /** sizeof(struct hythe_published), set by the caller. */
    size_t size;
    /** Subscribers that have it in their queue. */
    uint32_t delivered;
    /** Subscribers that did not get it, because their queue was full. */
    uint32_t dropped;
    /** Older messages that it evicted, from queues of subscribers that evict the oldest. */
    uint32_t evicted;
    /** Zero. */
    uint32_t reserved;
};

/**
 * The type of a channel. A port opens only if all four members equal the channel's. A port that
 * names no type accepts any.
 */
struct hythe_channel_type {
    /** sizeof(struct hythe_channel_type). */
    size_t size;
    /** Name of the type, the same in every language that uses it. */
    const char *name;
    /** Size of one value. */
    uint32_t bytes;
    /** Its alignment: a power of two. */
    uint32_t align;
    /** Version of the type, chosen by its author. */
    uint32_t version;
    /** Zero. */
    uint32_t reserved;
};

/**
 * Options of a client. Initialise them with hythe_client_options_init(); what is zero has its
 * default.
 */
struct hythe_client_options {
    /** sizeof(struct hythe_client_options). */
    size_t size;
    /** The type that the channel must carry. NULL: any type; a new channel carries raw bytes. */
    const struct hythe_channel_type *carries;
    /** How long one request may wait while there is no server, or all queues are full. 0: 5 s. */
    uint64_t send_timeout_ns;
    /** Requests that may be open at a time, at most 32,768. 0: 32. */
    uint32_t outstanding;
    /** Zero. */
    uint32_t reserved;
};

/** The counters of a port since it was opened. */
struct hythe_statistics {
    /** sizeof(struct hythe_statistics), set by the caller. */
    size_t size;
    /**
     * Messages published or taken; requests sent or taken; how often events were raised or taken.
     */
    uint64_t messages;
    /** Bytes of their payload. */
    uint64_t payload_bytes;
    /**
     * Of a publisher: messages that did not reach a subscriber, because its queue was full. Of a
     * subscriber: messages that it missed, because its own queue was full, or they were lost on
     * the way from another host. Otherwise: requests and replies that reached nobody.
     */
    uint64_t dropped;
    /** Invalid descriptors of faulty peers, which were refused. */
    uint64_t violations;
    /** Messages that hythe_publisher_forward_copy() copied. */
    uint64_t copies;
    /** Bytes of their payload. */
    uint64_t copied_bytes;
};

/** A message queue that is open: as mqd_t. (hythe_mqd_t)-1: none. */
typedef int hythe_mqd_t;

/** Slots of one size. */
struct hythe_slot_class {
    /** Bytes of the largest payload. */
    uint64_t payload_bytes;
    /** How many slots. */
    uint32_t count;
    /** Zero. */
    uint32_t reserved;
};

/**
 * Which pool, and how to make it. Initialise it with hythe_pool_options_init(); what is zero has
 * its default.
 */
struct hythe_pool_options {
    /** sizeof(struct hythe_pool_options). */
    size_t size;
    /** The pool's name: "NAME", or "UID/NAME" for another user's. Never NULL. */
    const char *name;
    /** Directory of all pools. NULL: the environment's HYTHE_ROOT, else /dev/shm/hythe. */
    const char *root;
    /** Group of the pool's files, by name or number, if it has to be made. NULL: the maker's. */
    const char *group;
    /**
     * Where a hugetlbfs is mounted that its slots shall lie in, if it has to be made. NULL:
     * ordinary pages.
     */
    const char *huge_pages;
    /**
     * Size of the whole pool in bytes, if it has to be made. 0: the least of 64 MiB, an eighth of
     * the memory (of the machine, or what control groups let this process have) and half of what
     * is free. More than there is: HYTHE_ENOROOM.
     */
    uint64_t bytes;
    /**
     * The longest that a wait looks before it sleeps. 0: what pays on this machine. HYTHE_NO_SPIN:
     * none.
     */
    uint64_t spin_ns;
    /**
     * Permissions of the pool's files, if it has to be made: 0640 and 0660 let the group read, or
     * write. 0: 0600.
     */
    uint32_t mode;
    /**
     * Not 0: touch every page now (those of a core's region when a port meets that core), so that
     * no first touch is paid on the data path.
     */
    uint32_t prefault;
    /** Not 0: lock the pool into memory, and a core's region when a port meets that core. */
    uint32_t lock;
    /**
     * Not 0: every process that may write this pool is trusted not to change a payload after it
     * gave it away. Only then hythe_sample_data() gives a pointer to it; without, payload is
     * copied out. Right for a pool whose participants are all one's own programs.
     */
    uint32_t trust_peers;
    /**
     * Not 0: control tables for a small device, if it has to be made: at most 8 processes take
     * part, and 2 MiB are enough.
     */
    uint32_t small;
    /** Zero. */
    uint32_t reserved;
    /**
     * Classes of slots beside the usual ones, if it has to be made: those with a count. The usual
     * ones share what these leave; without `bytes` the pool is as much larger.
     */
    struct hythe_slot_class classes[HYTHE_SLOT_CLASSES_MAX];
};

/**
 * Options of a publisher. Initialise them with hythe_publisher_options_init(); what is zero has
 * its default.
 */
struct hythe_publisher_options {
    /** sizeof(struct hythe_publisher_options). */
    size_t size;
    /** The type that the channel must carry. NULL: any type; a new channel carries raw bytes. */
    const struct hythe_channel_type *carries;
    /**
     * How long one message may wait for full queues, for all subscribers together, and how long
     * hythe_publisher_lease() waits for a free buffer. 0: 100 ms.
     */
    uint64_t send_timeout_ns;
    /**
     * Messages to keep for later subscribers, at most 32,768; each holds its buffer. 0: none.
     * They are sent by the publisher's next call that looks for subscribers: a program that
     * publishes rarely calls hythe_publisher_subscribers() now and then.
     */
    uint32_t history;
    /** Zero. */
    uint32_t reserved;
};

/** A call, as its method sees it. */
struct hythe_rpc_request {
    /** Which method: 1 to 0x7FFFFFFF. */
    uint32_t method;
    /** Number of the caller's task if it is on a core, 0: none. */
    uint32_t task;
    /** How long the caller waits. */
    uint64_t timeout_ns;
    /**
     * The argument: a copy, or with `trust_peers` where the caller wrote it. NULL if it has no
     * bytes.
     */
    const uint8_t *argument;
    /** Its size. */
    size_t argument_bytes;
};

/** The result of a call, to be written by its method. */
struct hythe_rpc_reply {
    /** Where to write it: in the buffer that goes to the caller. */
    uint8_t *result;
    /** How many bytes may be written. */
    size_t capacity;
    /**
     * Its size, 0 at first. More than `capacity`: the caller is told that size, and gets no
     * result.
     */
    size_t bytes;
};

/** One method. It returns 0, or a number of its own from 1 on: it failed. */
struct hythe_rpc_method {
    /** Its number: 1 to 0x7FFFFFFF. */
    uint32_t method;
    /** Zero. */
    uint32_t reserved;
    /** Its largest result. */
    size_t result_bytes;
    /** What is called, with `context`, in the thread of hythe_rpc_serve(). */
    int (*serve)(void *context,
                 const struct hythe_rpc_request *request,
                 struct hythe_rpc_reply *reply);
    /** Passed to `serve`. */
    void *context;
};

/**
 * Options of a server. Initialise them with hythe_server_options_init(); what is zero has its
 * default.
 */
struct hythe_server_options {
    /** sizeof(struct hythe_server_options). */
    size_t size;
    /** The type that the channel must carry. NULL: any type; a new channel carries raw bytes. */
    const struct hythe_channel_type *carries;
    /**
     * Requests that may wait to be taken, per client; rounded up to a power of two. 0: 32. A core
     * that asks has at most so many unanswered, each in a buffer that it was given in advance.
     */
    uint32_t depth;
    /** Zero. */
    uint32_t reserved;
};

/**
 * Options of a subscriber. Initialise them with hythe_subscriber_options_init(); what is zero has
 * its default.
 */
struct hythe_subscriber_options {
    /** sizeof(struct hythe_subscriber_options). */
    size_t size;
    /** The type that the channel must carry. NULL: any type; a new channel carries raw bytes. */
    const struct hythe_channel_type *carries;
    /** Messages that may wait, per publisher; rounded up to a power of two. 0: 32. */
    uint32_t depth;
    /** What happens when the queue is full: HYTHE_DROP_NEWEST, HYTHE_BLOCK, HYTHE_EVICT_OLDEST. */
    uint32_t when_full;
    /**
     * For HYTHE_BLOCK, how long a publisher may wait, in milliseconds; at least 1. It waits no
     * longer than its own `send_timeout_ns` either.
     */
    uint32_t block_ms;
    /**
     * Earlier messages to get from each publisher first, as many as it keeps and the depth
     * allows, at most 32,768. 0: none. A publisher sends them at its next call that looks for
     * subscribers.
     */
    uint32_t history;
};

/**
 * Options of a task. Initialise them with hythe_task_options_init(); what is zero has its default.
 */
struct hythe_task_options {
    /** sizeof(struct hythe_task_options). */
    size_t size;
    /** How many bytes are kept in this process's memory for tasks that do not receive. 0: 1 GiB. */
    uint64_t kept_bytes;
    /**
     * How long closing the task waits until others have received what it sent. 0: until they have,
     * or have ended.
     */
    uint64_t linger_ns;
    /** Not 0: this program trusts every program of the pool, and reads messages in place. */
    uint32_t trust_peers;
    /** Zero. */
    uint32_t reserved;
    /**
     * How many bytes are kept in this process's memory of messages that have come and were not
     * received yet, and 256 for each of them. 0: 1 GiB.
     */
    uint64_t passed_by_bytes;
};

/** What hythe_task_group_reduce() reduces. */
struct hythe_task_reduction {
    /** HYTHE_INT32 to HYTHE_DOUBLE. */
    uint32_t value_type;
    /** HYTHE_SUM to HYTHE_MAX. */
    uint32_t operation;
    /** How many values each member has. */
    size_t count;
};

/** What to spawn. Initialise it with hythe_spawn_options_init(); what is zero has its default. */
struct hythe_spawn_options {
    /** sizeof(struct hythe_spawn_options). */
    size_t size;
    /** A path, or a name that PATH leads to. */
    const char *program;
    /** Its arguments, without its name, and NULL behind the last. NULL: none. */
    const char *const *arguments;
    /** Variables, NAME=VALUE, beside those of the job, and NULL behind the last. NULL: none. */
    const char *const *environment;
    /** The directory in which it begins. NULL: that of the job. */
    const char *directory;
    /** On this host. NULL: anywhere. */
    const char *host;
    /** On a host of this architecture: x86_64, aarch64, arm. NULL: of any. */
    const char *architecture;
    /** How many. 0: 1. */
    uint32_t count;
    /** Zero. */
    uint32_t reserved;
};

/** Something is ready. */
struct hythe_ready {
    /** The key under which it was attached. */
    uint64_t key;
    /** How it is ready: HYTHE_READABLE, HYTHE_WRITABLE, HYTHE_CLOSED, or several. */
    uint32_t how;
    /** Zero. */
    uint32_t reserved;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Publishes `count` messages in their order, at less cost than one by one. Returns the number of
 * subscribers that got a message, summed over all messages. `published` may be NULL; else it gets
 * the sums. HYTHE_EARGUMENT: one of the messages is invalid, and none was published. Any other
 * error: the messages before the one that failed were published (the statistics count them), the
 * rest were not. Always consumes every lease and sets it to NULL. Blocks as
 * hythe_publisher_publish() does for each message.
 *
 * Requires:
 * `messages` points to `count` of them; `published` is NULL, or has its size set.
 */
int hythe_publisher_publish_batch(struct hythe_publisher *publisher,
                                  struct hythe_message *messages,
                                  size_t count,
                                  struct hythe_published *published);

/**
 * Takes at most `places` waiting samples, at less cost than one by one. Returns the number of
 * samples in `samples`; the other places get NULL. The caller owns each sample until it releases
 * or forwards it. An error after some samples is returned by the next call that takes. Does not
 * block.
 *
 * Requires:
 * `samples` points to `places` pointers.
 */
int hythe_subscriber_try_take_batch(struct hythe_subscriber *subscriber,
                                    struct hythe_sample **samples,
                                    size_t places);

/**
 * Initialises options: `hythe_client_options_init(&options, sizeof options)`. Any thread.
 *
 * Requires:
 * `options` points to `size` bytes.
 */
int hythe_client_options_init(struct hythe_client_options *options, size_t size);

/**
 * Opens a client of a request/reply channel, which is made if there is none. `options` may be
 * NULL. The result is the caller's, until hythe_client_close(). HYTHE_EMISMATCH, HYTHE_ETABLEFULL.
 * Does not block, except for a core behind the channel: until it has answered, for at most 5 s. A
 * core that comes later is met within the times of the client's calls.
 *
 * Requires:
 * `channel` is text, `options` are initialised.
 */
int hythe_client_open(const struct hythe_node *node,
                      const char *channel,
                      const struct hythe_client_options *options,
                      struct hythe_client **client);

/**
 * Closes a client, or does nothing for NULL. Its open requests are abandoned. Consumes `client`.
 */
void hythe_client_close(struct hythe_client *client);

/** Leases a buffer for a request. As hythe_node_lease(). */
int hythe_client_lease(const struct hythe_client *client, size_t bytes, struct hythe_lease **lease);

/**
 * Sends the first `bytes` of a leased buffer as a request. Does not wait for the reply. `*request`
 * gets the number of the request. HYTHE_ENOSERVER, HYTHE_ESERVERSFULL, HYTHE_ECORELOST,
 * HYTHE_EREQUESTS. Consumes `lease`, whatever is returned. Blocks for at most `send_timeout_ns`
 * while there is no server, or the queues of all are full.
 */
int hythe_client_request(struct hythe_client *client,
                         struct hythe_lease *lease,
                         size_t bytes,
                         uint64_t *request);

/**
 * Sends a received sample, or a part of one, as a request, without copying. HYTHE_ESHARED: the
 * buffer has another holder. Consumes `sample`, whatever is returned. Otherwise as
 * hythe_client_request().
 */
int hythe_client_forward(struct hythe_client *client,
                         struct hythe_sample *sample,
                         uint64_t *request);

/**
 * Sends a request and waits for its reply. Returns 0; the caller owns `*reply` until it releases
 * it. HYTHE_ENOREPLY: `timeout_ns` has passed, and the request is abandoned. Also the errors of
 * hythe_client_request() and hythe_client_wait(). Consumes `lease`, whatever is returned. Blocks
 * for at most `timeout_ns` and the client's send timeout.
 */
int hythe_client_call(struct hythe_client *client,
                      struct hythe_lease *lease,
                      size_t bytes,
                      uint64_t timeout_ns,
                      struct hythe_sample **reply);

/**
 * Waits for the reply to one request. Returns 1; the caller owns `*reply` until it releases it. 0:
 * no reply yet; the request stays open. HYTHE_ESERVERLOST, HYTHE_EUNANSWERED: the request has
 * ended. HYTHE_ENOTPENDING. Blocks for at most `timeout_ns`.
 */
int hythe_client_wait(struct hythe_client *client,
                      uint64_t request,
                      uint64_t timeout_ns,
                      struct hythe_sample **reply);

/**
 * Waits for the reply to any request. Returns 1, the number of the request in `*request` and the
 * reply, which the caller owns, in `*reply`. 0: none came. A request that ended without a reply:
 * HYTHE_ESERVERLOST or HYTHE_EUNANSWERED, with its number in `*request`; after any other error,
 * that is 0, which no request has. Blocks for at most `timeout_ns`.
 */
int hythe_client_take(struct hythe_client *client,
                      uint64_t timeout_ns,
                      uint64_t *request,
                      struct hythe_sample **reply);

/**
 * Abandons a request: its reply is dropped and counted when it comes. The server is not notified.
 * Does not block.
 */
int hythe_client_abandon(struct hythe_client *client, uint64_t request);

/** How many requests have no reply yet, or one that was not taken. Does not block. */
int hythe_client_open_requests(const struct hythe_client *client);

/** How many servers are connected. Does not block. */
int hythe_client_servers(struct hythe_client *client);

/**
 * Waits until at least `servers` are connected. Returns 1, or 0 if `timeout_ns` has passed. Blocks
 * for at most `timeout_ns`.
 */
int hythe_client_wait_for_servers(struct hythe_client *client, size_t servers, uint64_t timeout_ns);

/**
 * Reads the counters of this port. The caller sets the size in `statistics`.
 *
 * Requires:
 * `statistics` has its size set.
 */
int hythe_client_statistics(const struct hythe_client *client, struct hythe_statistics *statistics);

/**
 * A short description of a code. hythe_last_error() has the message of the last error. `code` may
 * be any number. Any thread, at any time.
 */
const char *hythe_strerror(int code);

/**
 * Opens a notifier of an event channel, which is made if there is none. The result is the
 * caller's, until hythe_notifier_close(). HYTHE_EMISMATCH, HYTHE_ETABLEFULL. Does not block,
 * except for a core behind the channel: until it has answered, for at most 5 s.
 *
 * Requires:
 * `channel` is text.
 */
int hythe_notifier_open(const struct hythe_node *node,
                        const char *channel,
                        struct hythe_notifier **notifier);

/** Closes a notifier, or does nothing for NULL. Consumes `notifier`. */
void hythe_notifier_close(struct hythe_notifier *notifier);

/**
 * Raises a set of events at every listener. Returns the number of listeners. An event that is
 * raised again before a listener takes it is taken once. A listener that takes an event sees all
 * that was written before.
 * Does not block.
 */
int hythe_notifier_notify(struct hythe_notifier *notifier, uint64_t events);

/** How many listeners there are. Does not block. */
int hythe_notifier_listeners(struct hythe_notifier *notifier);

/**
 * Waits until there are at least `listeners`. Returns 1, or 0 if `timeout_ns` has passed. Blocks
 * for at most `timeout_ns`.
 */
int hythe_notifier_wait_for_listeners(struct hythe_notifier *notifier,
                                      size_t listeners,
                                      uint64_t timeout_ns);

/**
 * Reads the counters of this port. The caller sets the size in `statistics`.
 *
 * Requires:
 * `statistics` has its size set.
 */
int hythe_notifier_statistics(const struct hythe_notifier *notifier,
                              struct hythe_statistics *statistics);

/**
 * Opens a listener of an event channel, which is made if there is none. It gets events that are
 * raised from now on. The result is the caller's, until hythe_listener_close(). HYTHE_EMISMATCH,
 * HYTHE_ETABLEFULL. Does not block, except for a core behind the channel: until it has answered,
 * for at most 5 s.
 *
 * Requires:
 * `channel` is text.
 */
int hythe_listener_open(const struct hythe_node *node,
                        const char *channel,
                        struct hythe_listener **listener);

/** Closes a listener, or does nothing for NULL. Consumes `listener`. */
void hythe_listener_close(struct hythe_listener *listener);

/**
 * Takes the events that were raised since the last take. Returns 1 and the set in `*events`. 0:
 * none were, and the set is empty. Blocks for at most `timeout_ns` for the first.
 */
int hythe_listener_wait(struct hythe_listener *listener, uint64_t timeout_ns, uint64_t *events);

/** As hythe_listener_wait(). Does not block. */
int hythe_listener_try_take(struct hythe_listener *listener, uint64_t *events);

/**
 * Reads the counters of this port. The caller sets the size in `statistics`.
 *
 * Requires:
 * `statistics` has its size set.
 */
int hythe_listener_statistics(const struct hythe_listener *listener,
                              struct hythe_statistics *statistics);

/** Bytes of payload that fit: at least as many as were asked for. 0 for NULL. */
size_t hythe_lease_capacity(const struct hythe_lease *lease);

/**
 * Where to write the payload in place: `capacity` bytes from `*data` on, until the lease is given
 * away. They have what the last owner left in them. What is read back through the pointer may have
 * been changed by a broken peer: write, don't compute there.
 */
int hythe_lease_data(struct hythe_lease *lease, void **data);

/**
 * Copies `count` bytes into the payload, from its byte `at` on. HYTHE_EARGUMENT: they do not fit;
 * nothing is written.
 *
 * Requires:
 * `bytes` points to `count` readable bytes.
 */
int hythe_lease_write(struct hythe_lease *lease, size_t at, const void *bytes, size_t count);

/**
 * Copies `count` bytes of the payload out, from its byte `at` on: what was written so far.
 *
 * Requires:
 * `into` points to `count` writable bytes.
 */
int hythe_lease_read(const struct hythe_lease *lease, size_t at, void *into, size_t count);

/**
 * Copies `count` bytes into the headroom in front of the payload, from the buffer's byte `at` on:
 * what travels beside the payload. HYTHE_EARGUMENT: it has HYTHE_HEADROOM_BYTES. Requests and
 * replies are numbered in its first 16 bytes, by the library.
 *
 * Requires:
 * `bytes` points to `count` readable bytes.
 */
int hythe_lease_write_headroom(struct hythe_lease *lease,
                               size_t at,
                               const void *bytes,
                               size_t count);

/**
 * Reads up to `count` bytes of a file, from its byte `position` on, straight into the payload,
 * from its byte `at` on. Returns how many; 0 at the end of the file. Blocks as pread() does.
 */
int hythe_lease_read_file(struct hythe_lease *lease,
                          int file,
                          uint64_t position,
                          size_t at,
                          size_t count);

/**
 * Reads up to `count` bytes of a pipe or socket straight into the payload, from its byte `at` on.
 * Returns how many; 0 at the end. Blocks as read() does, but goes on after a signal: call poll()
 * first to be interrupted.
 */
int hythe_lease_read_stream(struct hythe_lease *lease, int file, size_t at, size_t count);

/** Gives a buffer back unpublished, or does nothing for NULL. Consumes `lease`. */
void hythe_lease_release(struct hythe_lease *lease);

/**
 * The message of the last call of this thread that returned a negative code: what failed, with
 * which value, and what to do. Empty if none has failed. The text is valid until the thread's next
 * call that fails.
 */
const char *hythe_last_error(void);

/**
 * As mq_open(3), with `mode` and `attributes` in any case: hythe_mq_open() of this header is the
 * function with the arguments of mq_open(3). A queue has 64 messages at most, of 65536 bytes at
 * most; without attributes 10 of 8192. The pool is that of the environment's HYTHE_POOL, else
 * `default`. Any thread.
 *
 * Requires:
 * `name` is a string.
 */
hythe_mqd_t hythe_mq_open_with(const char *name,
                               int oflag,
                               unsigned int mode,
                               const struct mq_attr *attributes);

/** As mq_close(3): who was to be notified by this descriptor is not any more. Any thread. */
int hythe_mq_close(hythe_mqd_t mqdes);

/**
 * As mq_unlink(3). Any thread.
 *
 * Requires:
 * `name` is a string.
 */
int hythe_mq_unlink(const char *name);

/**
 * As mq_send(3): priorities are 0 to 31. Any thread.
 *
 * Requires:
 * `message` points to `bytes` bytes.
 */
int hythe_mq_send(hythe_mqd_t mqdes, const char *message, size_t bytes, unsigned int priority);

/**
 * As mq_timedsend(3). A signal handler always ends the wait with EINTR, also one with SA_RESTART.
 * Any thread.
 *
 * Requires:
 * `message` points to `bytes` bytes.
 */
int hythe_mq_timedsend(hythe_mqd_t mqdes,
                       const char *message,
                       size_t bytes,
                       unsigned int priority,
                       const struct timespec *abs_timeout);

/**
 * As mq_receive(3). Any thread.
 *
 * Requires:
 * `message` points to `bytes` bytes.
 */
ptrdiff_t hythe_mq_receive(hythe_mqd_t mqdes, char *message, size_t bytes, unsigned int *priority);

/**
 * As mq_timedreceive(3). A signal handler always ends the wait with EINTR, also one with
 * SA_RESTART. Any thread.
 *
 * Requires:
 * `message` points to `bytes` bytes.
 */
ptrdiff_t hythe_mq_timedreceive(hythe_mqd_t mqdes,
                                char *message,
                                size_t bytes,
                                unsigned int *priority,
                                const struct timespec *abs_timeout);

/** As mq_getattr(3). Any thread. */
int hythe_mq_getattr(hythe_mqd_t mqdes, struct mq_attr *attributes);

/** As mq_setattr(3): O_NONBLOCK is all that changes. Any thread. */
int hythe_mq_setattr(hythe_mqd_t mqdes, const struct mq_attr *attributes, struct mq_attr *before);

/**
 * As mq_notify(3): SIGEV_SIGNAL, SIGEV_THREAD and SIGEV_NONE. Notified is within 100 ms. Any
 * thread.
 *
 * Requires:
 * A function in `notification` is called with its value, on another thread.
 */
int hythe_mq_notify(hythe_mqd_t mqdes, const struct sigevent *notification);

/**
 * A file descriptor that is readable while a message waits, for poll(), epoll and
 * hythe_wait_set_attach_fd(). It belongs to the queue: never close or read it. Any thread.
 */
int hythe_mq_fd(hythe_mqd_t mqdes);

/**
 * Joins a pool under a name, which others see in `hythe list` and `hythe who`. The result is the
 * caller's, until hythe_node_leave(). Starts one thread, which watches for the death of peers. Any
 * thread; does not block.
 *
 * Requires:
 * `name` is text.
 */
int hythe_node_join(const struct hythe_pool *pool, const char *name, struct hythe_node **node);

/**
 * Leaves the pool, or does nothing for NULL. Ports, leases and samples of the node stay valid: the
 * process stays a participant until the last of them is closed or released. Consumes `node`.
 */
void hythe_node_leave(struct hythe_node *node);

/** This participant's number in its pool. Any thread. */
int hythe_node_index(const struct hythe_node *node);

/**
 * Returns 0 if every file of the pool that this process has accessed is still whole, else
 * HYTHE_EPOOLLOST. For programs that read or write in place: after a loss they read zeroes. All
 * other calls check this themselves. Any thread; does not block.
 */
int hythe_node_check_pool(const struct hythe_node *node);

/**
 * Ends the waits of this node's ports and wait sets that are under way, each with
 * HYTHE_EINTERRUPTED, or the next one that begins if there are none. For Ctrl-C: a signal alone
 * ends no wait. What has come is taken first, and calls with a time-out of 0 take no notice.
 * Several interrupts before a wait are one. Where other threads wait as well, theirs may be all
 * that it ends: such a program sets a flag of its own first. A publisher that waits for a full
 * queue ends that as if its send timeout were over, and leaves the interrupt for the next wait.
 *
 * Any thread, and a signal handler, as long as the node is joined: it allocates nothing, takes no
 * lock and leaves no message. HYTHE_EARGUMENT for NULL, HYTHE_EFORKED.
 */
int hythe_node_interrupt(const struct hythe_node *node);

/**
 * Leases a buffer for at most `bytes` of payload. The result is the caller's, until it is
 * published or released. HYTHE_ETOOLARGE, HYTHE_EPOOLFULL. Any thread; waits for a free buffer for
 * at most 100 ms.
 */
int hythe_node_lease(const struct hythe_node *node, size_t bytes, struct hythe_lease **lease);

/**
 * Initialises options: `hythe_pool_options_init(&options, sizeof options)`. Any thread.
 *
 * Requires:
 * `options` points to `size` bytes.
 */
int hythe_pool_options_init(struct hythe_pool_options *options, size_t size);

/**
 * Opens a pool, or makes it if there is none. One of another layout version that no process uses
 * is made anew, if it is the caller's and has no semaphores, queues or segments; else
 * HYTHE_ENOTPOOL, and hythe_last_error() names what is in the way. The result is the caller's,
 * until hythe_pool_close(). May take as long as the system needs to reserve the memory. Any
 * thread.
 *
 * Requires:
 * `options` are initialised.
 */
int hythe_pool_open_or_create(const struct hythe_pool_options *options, struct hythe_pool **pool);

/**
 * Opens a pool that is there. HYTHE_ENOPOOL: it is not. Otherwise as hythe_pool_open_or_create().
 *
 * Requires:
 * `options` are initialised.
 */
int hythe_pool_open(const struct hythe_pool_options *options, struct hythe_pool **pool);

/**
 * Makes a pool. Returns 1, or 0 if there is one of that name, which stays as it is. Any thread.
 *
 * Requires:
 * `options` are initialised.
 */
int hythe_pool_create(const struct hythe_pool_options *options);

/**
 * Removes a pool. HYTHE_EINUSE: somebody takes part in it, unless `force` is not 0; those who do
 * keep their memory and meet nobody new. Any thread.
 *
 * Requires:
 * `options` are initialised.
 */
int hythe_pool_remove(const struct hythe_pool_options *options, int force);

/**
 * Closes a pool, or does nothing for NULL. Nodes that joined over it stay, and what they opened.
 * Consumes `pool`.
 */
void hythe_pool_close(struct hythe_pool *pool);

/**
 * Initialises options: `hythe_publisher_options_init(&options, sizeof options)`. Any thread.
 *
 * Requires:
 * `options` points to `size` bytes.
 */
int hythe_publisher_options_init(struct hythe_publisher_options *options, size_t size);

/**
 * Opens a publisher on a channel, which is made if there is none. `options` may be NULL. The
 * result is the caller's, until hythe_publisher_close(). HYTHE_EMISMATCH, HYTHE_ETABLEFULL,
 * HYTHE_ECORE, HYTHE_ECORELOST. Does not block, except for a core behind the channel: until it has
 * answered, for at most 5 s.
 *
 * Requires:
 * `channel` is text, `options` are initialised.
 */
int hythe_publisher_open(const struct hythe_node *node,
                         const char *channel,
                         const struct hythe_publisher_options *options,
                         struct hythe_publisher **publisher);

/**
 * Closes a publisher, or does nothing for NULL. What it has published stays with the subscribers.
 * Consumes `publisher`. Waits for a core behind the channel until it has given all buffers back,
 * for at most 2 s.
 */
void hythe_publisher_close(struct hythe_publisher *publisher);

/**
 * Leases a buffer that every receiver of this channel can see. As hythe_node_lease(), but waits
 * for `send_timeout_ns`.
 */
int hythe_publisher_lease(const struct hythe_publisher *publisher,
                          size_t bytes,
                          struct hythe_lease **lease);

/**
 * Publishes the first `bytes` of a leased buffer. Returns how many subscribers have it;
 * `published` may be NULL; else it gets more counters. Consumes `lease`, whatever is returned:
 * what is not published is released. Blocks while the queue of a subscriber with HYTHE_BLOCK is
 * full, for as long as it and `send_timeout_ns` allow: HYTHE_EBLOCKED, HYTHE_EGONE; the others
 * have the message then. A core that is the only receiver is waited for whatever the send timeout:
 * for at most 5 s until it answers (HYTHE_ECORELOST), and 10 s while it is full (HYTHE_ECOREFULL).
 *
 * Requires:
 * `published` is NULL, or has its size set.
 */
int hythe_publisher_publish(struct hythe_publisher *publisher,
                            struct hythe_lease *lease,
                            size_t bytes,
                            struct hythe_published *published);

/**
 * Publishes a copy of `count` bytes: lease, write and publish in one call, for short messages.
 *
 * Requires:
 * `bytes` points to `count` readable bytes; `published` is NULL, or has its size set.
 */
int hythe_publisher_publish_copy(struct hythe_publisher *publisher,
                                 const void *bytes,
                                 size_t count,
                                 struct hythe_published *published);

/**
 * Publishes a received sample, or a part of one, without copying. Consumes `sample`, whatever is
 * returned. Otherwise as hythe_publisher_publish().
 *
 * Requires:
 * `published` is NULL, or has its size set.
 */
int hythe_publisher_forward(struct hythe_publisher *publisher,
                            struct hythe_sample *sample,
                            struct hythe_published *published);

/**
 * Publishes a copy of a received sample, or of a part of one, with its headroom, in a buffer that
 * every receiver of this channel can see: from one core to another for instance. It always copies,
 * and `copies` in struct hythe_statistics counts that. `sample` stays the caller's; it may be of
 * another node. Otherwise as hythe_publisher_publish().
 *
 * Requires:
 * `published` is NULL, or has its size set.
 */
int hythe_publisher_forward_copy(struct hythe_publisher *publisher,
                                 const struct hythe_sample *sample,
                                 struct hythe_published *published);

/**
 * Connects to new subscribers, sends them the kept messages, and returns how many are connected; a
 * core counts as one. Does not block.
 */
int hythe_publisher_subscribers(struct hythe_publisher *publisher);

/**
 * Connects to new subscribers. Returns 0 if there is a queue to each, else why there is none to
 * one of them: HYTHE_ETABLEFULL, HYTHE_EGEOMETRY. That one gets no messages; they count as
 * dropped. Does not block.
 */
int hythe_publisher_reaches_all(struct hythe_publisher *publisher);

/**
 * Waits until at least `subscribers` are connected. Returns 1, or 0 if `timeout_ns` has passed.
 * Blocks for at most `timeout_ns`.
 */
int hythe_publisher_wait_for_subscribers(struct hythe_publisher *publisher,
                                         size_t subscribers,
                                         uint64_t timeout_ns);

/**
 * Waits until a core has returned all buffers that were sent to it; returns at once for other
 * receivers. HYTHE_ECORELOST: it has not returned them in time. Blocks for at most `timeout_ns`.
 */
int hythe_publisher_flush(struct hythe_publisher *publisher, uint64_t timeout_ns);

/**
 * Reads the counters of this port. The caller sets the size in `statistics`.
 *
 * Requires:
 * `statistics` has its size set.
 */
int hythe_publisher_statistics(const struct hythe_publisher *publisher,
                               struct hythe_statistics *statistics);

/**
 * Calls a method of a server and waits for its result, which is copied to `result`. `*length` gets
 * its size. HYTHE_ENOMETHOD. HYTHE_ERESULT: it is larger than `capacity`, or than the channel to
 * or from a core carries; `*length` is its size. HYTHE_EFAILED: `*length` is the number of the
 * failure. HYTHE_ENOREPLY: `timeout_ns` has passed; a result that comes late is dropped and
 * counted. HYTHE_ESERVERLOST: whether the method has run is not known. Otherwise as
 * hythe_client_lease() and hythe_client_call(). Blocks for at most `timeout_ns` and the client's
 * send timeout.
 *
 * Requires:
 * `argument` points to `argument_bytes` readable bytes, `result` to `capacity` writable ones.
 */
int hythe_rpc_call(struct hythe_client *client,
                   uint32_t method,
                   const void *argument,
                   size_t argument_bytes,
                   void *result,
                   size_t capacity,
                   size_t *length,
                   uint64_t timeout_ns);

/**
 * Begins a call, with a copy of the argument, and does not wait. `*call` gets its number, for
 * hythe_rpc_wait() or hythe_client_abandon(). `timeout_ns` is told to the server. As
 * hythe_client_lease() and hythe_client_request().
 *
 * Requires:
 * `argument` points to `argument_bytes` readable bytes.
 */
int hythe_rpc_begin(struct hythe_client *client,
                    uint32_t method,
                    const void *argument,
                    size_t argument_bytes,
                    uint64_t timeout_ns,
                    uint64_t *call);

/**
 * Leases a buffer for an argument of `bytes` bytes, which is to be written from its byte
 * HYTHE_RPC_HEADER_BYTES on. As hythe_client_lease().
 */
int hythe_rpc_lease(struct hythe_client *client, size_t bytes, struct hythe_lease **lease);

/**
 * Begins a call whose argument of `bytes` bytes was written into its buffer, without a copy.
 * Consumes `lease`, whatever is returned. Otherwise as hythe_rpc_begin().
 */
int hythe_rpc_begin_in(struct hythe_client *client,
                       uint32_t method,
                       struct hythe_lease *lease,
                       size_t bytes,
                       uint64_t timeout_ns,
                       uint64_t *call);

/**
 * Waits for the result of one call. Returns 1; the caller owns `*result`, which is read where the
 * server wrote it, until it releases it. 0: none yet; the call is still outstanding. The call has
 * ended with HYTHE_ENOMETHOD; with HYTHE_ERESULT and the size of the result in `*detail`; with
 * HYTHE_EFAILED and the number of the failure there; and as hythe_client_wait() says. `detail` may
 * be NULL. Blocks for at most `timeout_ns`.
 */
int hythe_rpc_wait(struct hythe_client *client,
                   uint64_t call,
                   uint64_t timeout_ns,
                   struct hythe_sample **result,
                   size_t *detail);

/**
 * Serves one call that comes over a server: calls its method, in this thread, and replies. Returns
 * 1: it is answered, also with HYTHE_ENOMETHOD or HYTHE_ERESULT for its caller. 0: none came.
 * HYTHE_ECALLERLOST: its caller is gone, nobody has got the result. What is no call is given up,
 * and counted as a violation. HYTHE_EARGUMENT, too, if a method returns less than 0: its caller
 * gets HYTHE_EUNANSWERED. So it does if a method throws a C++ exception, which passes through this
 * call, or leaves by longjmp(): then with the next call on the server. A method does not use the
 * server itself. Blocks for at most `timeout_ns` until one comes.
 *
 * Requires:
 * `table` points to `count` methods.
 */
int hythe_rpc_serve(struct hythe_server *server,
                    const struct hythe_rpc_method *table,
                    size_t count,
                    uint64_t timeout_ns);

/** Bytes of payload. 0 for NULL. */
size_t hythe_sample_length(const struct hythe_sample *sample);

/**
 * Copies `count` bytes of the payload out, from its byte `at` on. HYTHE_EARGUMENT: the range is
 * not within the payload; nothing is copied. Other processes may still write the payload: check
 * the copy, then use the copy.
 * Requires:
 * `into` points to `count` writable bytes.
 */
int hythe_sample_read(const struct hythe_sample *sample, size_t at, void *into, size_t count);

/**
 * Copies `count` bytes of the headroom out, from the buffer's byte `at` on. A part of a sample
 * has the headroom of the whole buffer. HYTHE_EARGUMENT: the range is not within
 * HYTHE_HEADROOM_BYTES.
 * Requires:
 * `into` points to `count` writable bytes.
 */
int hythe_sample_read_headroom(const struct hythe_sample *sample,
                               size_t at,
                               void *into,
                               size_t count);

/**
 * Messages of its publisher that did not reach this subscriber since the one before: dropped or
 * evicted, because it was slow, or lost on the way from another host. Its statistics count them,
 * too. At most 2^31 - 1. 0 for a sample that was not taken from a subscriber.
 */
int hythe_sample_missed_before(const struct hythe_sample *sample);

/**
 * The payload in place: hythe_sample_length() bytes from `*data` on, valid until the sample is
 * released or forwarded. HYTHE_ETRUST unless the pool was opened with `trust_peers`: a process
 * that may write the pool could change the bytes while they are read.
 */
int hythe_sample_data(const struct hythe_sample *sample, const void **data);

/**
 * Makes another sample of `count` bytes of this payload, from its byte `at` on, without copying:
 * both hold one buffer. The caller owns the result until it releases or forwards it. `sample`
 * stays valid.
 */
int hythe_sample_part(const struct hythe_sample *sample,
                      size_t at,
                      size_t count,
                      struct hythe_sample **part);

/** Releases a sample, or does nothing for NULL. Consumes `sample`. */
void hythe_sample_release(struct hythe_sample *sample);

/**
 * As shmget(2). With HYTHE_SHM_DUAL in `shmflg`, the bytes of a new segment are in memory that a
 * core sees, and the key is looked for among such segments. With HYTHE_SHM_ON_CORE the core's
 * program is asked to make a new one, for 5 s at most: EACCES if it refuses, ENOSPC if it does not
 * answer; the process takes part in the pool meanwhile. The pool is that of the environment's
 * HYTHE_POOL, else `default`; the core that of HYTHE_CORE, else the first that has memory for
 * segments. Any thread.
 */
int hythe_shmget(key_t key, size_t size, int shmflg);

/**
 * As shmat(2). For a segment that a core sees, SHM_REMAP is refused with EINVAL, SHM_EXEC with
 * EACCES. Any thread.
 *
 * Requires:
 * As shmat(2) demands of `address`.
 */
void *hythe_shmat(int shmid, const void *address, int shmflg);

/**
 * As shmdt(2). Any thread.
 *
 * Requires:
 * Nobody uses the bytes any more.
 */
int hythe_shmdt(const void *address);

/**
 * As shmctl(2). Any thread.
 *
 * Requires:
 * `buffer` is what shmctl(2) demands for `command`.
 */
int hythe_shmctl(int shmid, int command, struct shmid_ds *buffer);

/**
 * 1 if a core sees the segment's bytes, 0 if not; -1 and EINVAL if there is no such segment. Any
 * thread.
 */
int hythe_shm_is_dual(int shmid);

/**
 * 0 if all `bytes` from `address` on lie in one segment that this process attached by
 * hythe_shmat() and a core sees; else -1 and EFAULT. Any thread.
 */
int hythe_shm_check(const void *address, size_t bytes);

/**
 * As sem_open(3), with `mode` and `value` in any case: hythe_sem_open() of this header is the
 * function with the arguments of sem_open(3). NULL for SEM_FAILED. The pool is that of the
 * environment's HYTHE_POOL, else `default`. HYTHE_SEM_RECOVER may be in `oflag`. Any thread.
 *
 * Requires:
 * `name` is a string.
 */
struct hythe_sem *hythe_sem_open_with(const char *name,
                                      int oflag,
                                      unsigned int mode,
                                      unsigned int value);

/**
 * As sem_close(3): after the last, what this process has taken and not posted is nobody's hold any
 * more; so does exit(3). EINVAL for what is no open semaphore. Any thread.
 *
 * Requires:
 * Nobody uses the handle after its last close.
 */
int hythe_sem_close(struct hythe_sem *sem);

/**
 * As sem_unlink(3). Any thread.
 *
 * Requires:
 * `name` is a string.
 */
int hythe_sem_unlink(const char *name);

/**
 * As sem_wait(3). EOWNERDEAD, once, if a process died that had taken a count and not posted:
 * nothing was taken, and hythe_sem_recover() gives its counts back. A signal handler always ends
 * the wait with EINTR, also one with SA_RESTART. Any thread.
 */
int hythe_sem_wait(const struct hythe_sem *sem);

/** As sem_trywait(3); EOWNERDEAD as hythe_sem_wait(). Any thread. */
int hythe_sem_trywait(const struct hythe_sem *sem);

/** As sem_timedwait(3); EOWNERDEAD as hythe_sem_wait(). Any thread. */
int hythe_sem_timedwait(const struct hythe_sem *sem, const struct timespec *abs_timeout);

/** As sem_post(3): from a signal handler, too. Any thread. */
int hythe_sem_post(const struct hythe_sem *sem);

/** As sem_getvalue(3): 0 while others wait. Any thread. */
int hythe_sem_getvalue(const struct hythe_sem *sem, int *value);

/**
 * Gives back what dead processes had taken and not posted. Returns how many counts those were, or
 * -1 and errno. Any thread.
 */
int hythe_sem_recover(const struct hythe_sem *sem);

/**
 * A file descriptor that is readable while the value is not 0, for poll(), epoll and
 * hythe_wait_set_attach_fd(). It belongs to the semaphore: never close or read it. Any thread.
 */
int hythe_sem_fd(const struct hythe_sem *sem);

/**
 * Initialises options: `hythe_server_options_init(&options, sizeof options)`. Any thread.
 *
 * Requires:
 * `options` points to `size` bytes.
 */
int hythe_server_options_init(struct hythe_server_options *options, size_t size);

/**
 * Opens a server of a request/reply channel, which is made if there is none. Where there are
 * several, requests go to them in turn. `options` may be NULL. The result is the caller's, until
 * hythe_server_close(). HYTHE_EMISMATCH, HYTHE_ETABLEFULL, HYTHE_ECORE, HYTHE_ECORELOST. Does not
 * block, except for a core that asks over the channel: until it has answered, for at most 5 s.
 *
 * Requires:
 * `channel` is text, `options` are initialised.
 */
int hythe_server_open(const struct hythe_node *node,
                      const char *channel,
                      const struct hythe_server_options *options,
                      struct hythe_server **server);

/**
 * Closes a server, or does nothing for NULL. Its unanswered requests fail at the clients.
 * Consumes `server`. Waits for a core that asks until it has read the replies, for at most 2 s,
 * and until it has let go of its empty buffers, for at most 0.5 s.
 */
void hythe_server_close(struct hythe_server *server);

/**
 * Leases a buffer for a reply, where all clients see it: for a core in its region. As
 * hythe_node_lease().
 */
int hythe_server_lease(const struct hythe_server *server, size_t bytes, struct hythe_lease **lease);

/**
 * Takes the next request. Returns 1, or 0 with NULL in `*request` if none came. The caller owns
 * the request until it answers or releases it. Blocks for at most `timeout_ns`.
 */
int hythe_server_take(struct hythe_server *server,
                      uint64_t timeout_ns,
                      struct hythe_request **request);

/** Takes the next request if there is one, as hythe_server_take(). Does not block. */
int hythe_server_try_take(struct hythe_server *server, struct hythe_request **request);

/** How many clients are connected. Does not block. */
int hythe_server_clients(struct hythe_server *server);

/**
 * Reads the counters of this port. The caller sets the size in `statistics`.
 * Requires:
 * `statistics` has its size set.
 */
int hythe_server_statistics(const struct hythe_server *server, struct hythe_statistics *statistics);

/**
 * The payload of the request: a sample that belongs to the request and is released with it. Never
 * release it by itself. NULL for NULL.
 */
const struct hythe_sample *hythe_request_sample(const struct hythe_request *request);

/** The number of the participant that sent the request. */
int hythe_request_client(const struct hythe_request *request);

/**
 * Leases a buffer for the reply, where its client sees it, also when the server is closed. As
 * hythe_node_lease().
 */
int hythe_request_lease(const struct hythe_request *request,
                        size_t bytes,
                        struct hythe_lease **lease);

/**
 * Replies with the first `bytes` of a leased buffer. Returns 1, or 0 if the client is gone or its
 * queue is full. HYTHE_ECORE: the client is a core, and does not see the buffer, or it is too long
 * for its endpoint; the core is told that there is no reply. Always consumes `request` and
 * `lease`. Does not block.
 */
int hythe_request_reply(struct hythe_request *request, struct hythe_lease *lease, size_t bytes);

/**
 * Replies with the buffer of the request, without copying. Returns as hythe_request_reply().
 * HYTHE_ESHARED: the client kept a reference to the buffer. Always consumes `request`. Does not
 * block.
 */
int hythe_request_reply_in_kind(struct hythe_request *request);

/**
 * Replies with a received sample, or a part of one, without copying. Returns as
 * hythe_request_reply(). HYTHE_ESHARED: the buffer has another holder. Always consumes `request`
 * and `sample`. Does not block.
 */
int hythe_request_forward(struct hythe_request *request, struct hythe_sample *sample);

/**
 * Releases a request without a reply, or does nothing for NULL. Its client gets
 * HYTHE_EUNANSWERED. Consumes `request`.
 */
void hythe_request_release(struct hythe_request *request);

/**
 * Installs no handler for SIGBUS, for a program that has its own and keeps it: to be called before
 * the first pool is opened or made. That handler calls hythe_sigbus_settle(); without it, a pool
 * whose file is cut away ends the program. Any thread.
 */
int hythe_sigbus_leave_to_program(void);

/**
 * Settles a fault, in a handler for SIGBUS that was installed with SA_SIGINFO, of a signal whose
 * si_code is positive: `address` is its si_addr. 1: it was in a file of a pool, which is lost from
 * now on (HYTHE_EPOOLLOST); return from the handler, and the access is done again, on zeroes. 0:
 * it was not. Async-signal-safe: it takes no lock, allocates nothing, and leaves no message.
 */
int hythe_sigbus_settle(const void *address);

/**
 * Initialises options: `hythe_subscriber_options_init(&options, sizeof options)`. Any thread.
 *
 * Requires:
 * `options` points to `size` bytes.
 */
int hythe_subscriber_options_init(struct hythe_subscriber_options *options, size_t size);

/**
 * Opens a subscriber on a channel, which is made if there is none. `options` may be NULL. The
 * result is the caller's, until hythe_subscriber_close(). HYTHE_EMISMATCH, HYTHE_ETABLEFULL,
 * HYTHE_ECORE, HYTHE_ECORELOST. Does not block, except for a core behind the channel: until it has
 * answered, for at most 5 s.
 *
 * Requires:
 * `channel` is text, `options` are initialised.
 */
int hythe_subscriber_open(const struct hythe_node *node,
                          const char *channel,
                          const struct hythe_subscriber_options *options,
                          struct hythe_subscriber **subscriber);

/**
 * Closes a subscriber, or does nothing for NULL. Messages in its queues are released; samples
 * that were taken stay valid. Consumes `subscriber`. Waits for a core behind the channel until it
 * has let go of its empty buffers, for at most 0.5 s.
 */
void hythe_subscriber_close(struct hythe_subscriber *subscriber);

/**
 * Takes the next sample. Returns 1, or 0 with NULL in `*sample` if none came. The caller owns the
 * sample until it releases or forwards it. Blocks for at most `timeout_ns`.
 */
int hythe_subscriber_take(struct hythe_subscriber *subscriber,
                          uint64_t timeout_ns,
                          struct hythe_sample **sample);

/**
 * Takes the next sample if there is one, as hythe_subscriber_take(). Does not block, and calls the
 * kernel only to wake a publisher.
 */
int hythe_subscriber_try_take(struct hythe_subscriber *subscriber, struct hythe_sample **sample);

/**
 * How many publishers the channel has: those that are connected, and those that have opened and
 * will connect with their next call. One that left counts until all that it sent is taken. Does
 * not block.
 */
int hythe_subscriber_publishers(struct hythe_subscriber *subscriber);

/**
 * How many publishers are connected: a publisher connects when it publishes or looks for
 * subscribers, not when it opens. One that left counts until all that it sent is taken. Does not
 * block.
 */
int hythe_subscriber_connected_publishers(struct hythe_subscriber *subscriber);

/**
 * Reads the counters of this port. The caller sets the size in `statistics`.
 * Requires:
 * `statistics` has its size set.
 */
int hythe_subscriber_statistics(const struct hythe_subscriber *subscriber,
                                struct hythe_statistics *statistics);

/**
 * Initialises options: `hythe_task_options_init(&options, sizeof options)`. Any thread.
 *
 * Requires:
 * `options` points to `size` bytes.
 */
int hythe_task_options_init(struct hythe_task_options *options, size_t size);

/**
 * Joins the pool of the job, as the task that hythe run or another task has started. `options` may
 * be NULL. The result is the caller's, until hythe_task_close(). HYTHE_ENOJOB: nobody has started
 * this process as a task. Any thread; does not block.
 *
 * Requires:
 * `options` are initialised.
 */
int hythe_task_join(const struct hythe_task_options *options, struct hythe_task **task);

/**
 * Makes this process, which nobody started as a task, one of the job `hythe run --stay` of a pool;
 * NULL: of the default pool. The job neither ends it nor waits for it. `options` may be NULL. The
 * result is the caller's, until hythe_task_close(). HYTHE_ENOJOB: there is none. Any thread; does
 * not block.
 *
 * Requires:
 * `pool` is NULL or text, `options` are initialised.
 */
int hythe_task_enrol(const char *pool,
                     const struct hythe_task_options *options,
                     struct hythe_task **task);

/**
 * Leaves the job: this task has ended for all others, and the process goes on. Waits as
 * hythe_task_close() does. Consumes `task`.
 */
int hythe_task_leave(struct hythe_task *task);

/**
 * Closes a task, or does nothing for NULL. Waits until others have received what it sent, or have
 * ended, for at most `linger_ns` of its options; what comes meanwhile is dropped. A program that
 * exits without it waits as long. Consumes `task`.
 */
void hythe_task_close(struct hythe_task *task);

/** The number of this task, by which others reach it; 0: not a task. Does not block. */
uint32_t hythe_task_id(const struct hythe_task *task);

/** Its rank among those that were started with it, from 0 on. Does not block. */
int hythe_task_rank(const struct hythe_task *task);

/** How many were started with it. Does not block. */
int hythe_task_size(const struct hythe_task *task);

/** The number of the task that spawned it; 0: the job began with it. Does not block. */
uint32_t hythe_task_parent(const struct hythe_task *task);

/**
 * The number of the task of this rank that was started with it; 0: there is none. Does not block.
 */
uint32_t hythe_task_sibling(const struct hythe_task *task, uint32_t rank);

/**
 * Sends a message to a task, also to one that has not joined yet. Does not wait for its receiver:
 * what it has no place for is kept in this process's memory, up to the limit of the options.
 * HYTHE_EENDED, HYTHE_EKEPT.
 *
 * Requires:
 * `count` bytes from `bytes` on may be read.
 */
int hythe_task_send(const struct hythe_task *task,
                    uint32_t to,
                    uint32_t tag,
                    const void *bytes,
                    size_t count);

/**
 * Receives the first message from task `from`, or from any if that is 0, with this tag, or with
 * any if that is HYTHE_ANY_TAG. Returns 1 and the message, which is the caller's until
 * hythe_task_message_release(), or 0 if none came. HYTHE_EENDED: `from` has ended, and has sent no
 * more. HYTHE_EKEPT: it is not among those that came and were not received yet, of which no more
 * are kept. Blocks for at most `timeout_ns`.
 */
int hythe_task_receive(struct hythe_task *task,
                       uint32_t from,
                       int64_t tag,
                       uint64_t timeout_ns,
                       struct hythe_task_message **message);

/**
 * Looks whether there is such a message, as hythe_task_receive() would take it. Returns 1, with
 * its sender, tag and length where these places are not NULL, or 0. HYTHE_EKEPT as there. Does not
 * block.
 */
int hythe_task_probe(struct hythe_task *task,
                     uint32_t from,
                     int64_t tag,
                     uint32_t *source,
                     uint32_t *found_tag,
                     size_t *length);

/** Has a task ended? Returns 1 or 0; 1 also for one that never was. Does not block. */
int hythe_task_has_ended(const struct hythe_task *task, uint32_t which);

/**
 * From now on hythe_task_take_end() tells the end of a task, also if it has ended already. Does
 * not block.
 */
int hythe_task_notify_end(struct hythe_task *task, uint32_t which);

/**
 * Takes the end of a task that was asked for, each once. Returns 1 and its number in `*which`, or
 * 0 if none has ended. Blocks for at most `timeout_ns`.
 */
int hythe_task_take_end(struct hythe_task *task, uint64_t timeout_ns, uint32_t *which);

/**
 * Sends a signal to a task of the pool, and to all processes of its group. HYTHE_ENOTASK. Does not
 * block.
 */
int hythe_task_kill(const struct hythe_task *task, uint32_t which, int signal);

/**
 * Waits until nothing is kept for others any more. Returns 1, or 0 if `timeout_ns` has passed.
 * Blocks for at most that.
 */
int hythe_task_flush(const struct hythe_task *task, uint64_t timeout_ns);

/**
 * Changes how many bytes are kept for others at most. What is kept already is sent all the same.
 * Does not block.
 */
int hythe_task_set_kept_bytes_max(const struct hythe_task *task, uint64_t kept_bytes);

/**
 * Changes how many bytes are kept of messages that have come and were not received yet. What is
 * kept already stays. Does not block.
 */
int hythe_task_set_passed_by_bytes_max(const struct hythe_task *task, uint64_t passed_by_bytes);

/**
 * Waits until `count` members of a group of the job have come to this call; all of them ask for
 * the same number. HYTHE_EENDED: fewer than that are left, and hythe_last_error() names the one
 * that has ended; HYTHE_ELATE; HYTHE_EGROUP: this task is no member. Blocks for at most
 * `timeout_ns`.
 *
 * Requires:
 * `group` is text.
 */
int hythe_task_barrier(struct hythe_task *task,
                       const char *group,
                       uint32_t count,
                       uint64_t timeout_ns);

/**
 * All tasks that were started with this one, by rank. The result is the caller's, until
 * hythe_task_group_close(). Does not block.
 */
int hythe_task_group_of_siblings(const struct hythe_task *task, struct hythe_task_group **group);

/**
 * Takes part in a group of the job, which is made if there is none: with the least number that is
 * free in it. The result is the caller's, until hythe_task_group_close(), which does not leave the
 * group. Does not block.
 *
 * Requires:
 * `name` is text.
 */
int hythe_task_group_join(const struct hythe_task *task,
                          const char *name,
                          struct hythe_task_group **group);

/**
 * A group of the job, as it is now. The result is the caller's, until hythe_task_group_close().
 * Does not block.
 *
 * Requires:
 * `name` is text.
 */
int hythe_task_group_open(const struct hythe_task *task,
                          const char *name,
                          struct hythe_task_group **group);

/**
 * Leaves a group. HYTHE_EGROUP: this task is no member. Does not block.
 *
 * Requires:
 * `name` is text.
 */
int hythe_task_group_leave(const struct hythe_task *task, const char *name);

/** Closes a group, or does nothing for NULL; the task stays a member. Consumes `group`. */
void hythe_task_group_close(struct hythe_task_group *group);

/** How many members it has. Does not block. */
int hythe_task_group_size(const struct hythe_task_group *group);

/** The number of a task in the group, from 0 on. HYTHE_EGROUP: it is no member. Does not block. */
int hythe_task_group_instance(const struct hythe_task_group *group, uint32_t task);

/** The task with this number in the group; 0: there is none. Does not block. */
uint32_t hythe_task_group_task(const struct hythe_task_group *group, uint32_t instance);

/**
 * Waits until all members have come to this call. HYTHE_EENDED: one has ended, which
 * hythe_last_error() names; HYTHE_ELATE. Blocks for at most `timeout_ns`.
 */
int hythe_task_group_barrier(const struct hythe_task_group *group,
                             struct hythe_task *task,
                             uint64_t timeout_ns);

/**
 * Gives all members the `count` bytes that member `root` has; at the others they are overwritten.
 * HYTHE_ERESULT: the root gave another number of bytes. As hythe_task_group_barrier() at members
 * that wait for the root. Blocks for at most `timeout_ns`.
 *
 * Requires:
 * `count` bytes from `bytes` on may be written.
 */
int hythe_task_group_broadcast(const struct hythe_task_group *group,
                               struct hythe_task *task,
                               uint32_t root,
                               void *bytes,
                               size_t count,
                               uint64_t timeout_ns);

/**
 * Gives each member `count` bytes of those that member `root` has from `from` on, in the order of
 * their numbers; at the others `from` does not count. As hythe_task_group_broadcast().
 *
 * Requires:
 * `count` bytes from `into` on may be written; at the root as many for each member may be read
 * from `from` on.
 */
int hythe_task_group_scatter(const struct hythe_task_group *group,
                             struct hythe_task *task,
                             uint32_t root,
                             const void *from,
                             void *into,
                             size_t count,
                             uint64_t timeout_ns);

/**
 * Gives member `root` the `count` bytes of each, one behind the other from `into` on, in the order
 * of their numbers; at the others `into` does not count, and they do not wait. At the root as
 * hythe_task_group_barrier(), and HYTHE_ERESULT: a member gave another number of bytes.
 *
 * Requires:
 * `count` bytes from `from` on may be read; at the root as many for each member may be written
 * from `into` on.
 */
int hythe_task_group_gather(const struct hythe_task_group *group,
                            struct hythe_task *task,
                            uint32_t root,
                            const void *from,
                            void *into,
                            size_t count,
                            uint64_t timeout_ns);

/**
 * Gives member `root` what `reduction` makes of the values of all, in the order of their
 * numbers, from `into` on; at the others `into` does not count, and they do not wait. As
 * hythe_task_group_gather().
 *
 * Requires:
 * As many values from `from` on may be read, and at the root as many from `into` on written.
 */
int hythe_task_group_reduce(const struct hythe_task_group *group,
                            struct hythe_task *task,
                            uint32_t root,
                            struct hythe_task_reduction reduction,
                            const void *from,
                            void *into,
                            uint64_t timeout_ns);

/** The number of the task that sent it, as it says; 0 for NULL. Any thread. */
uint32_t hythe_task_message_source(const struct hythe_task_message *message);

/** Its tag; 0 for NULL. Any thread. */
uint32_t hythe_task_message_tag(const struct hythe_task_message *message);

/** How many bytes it has; 0 for NULL. Any thread. */
size_t hythe_task_message_length(const struct hythe_task_message *message);

/**
 * Copies `count` bytes out, from its byte `at` on. HYTHE_EARGUMENT: it has not so many; nothing is
 * copied. Any thread.
 *
 * Requires:
 * `into` points to `count` writable bytes.
 */
int hythe_task_message_read(const struct hythe_task_message *message,
                            size_t at,
                            void *into,
                            size_t count);

/**
 * The message in place: hythe_task_message_length() bytes from `*data` on, valid until it is
 * released. HYTHE_ETRUST unless the task has `trust_peers`: a process that may write the pool
 * could change the bytes while they are read. Any thread.
 */
int hythe_task_message_data(const struct hythe_task_message *message, const void **data);

/** Releases a message, or does nothing for NULL. Consumes `message`. */
void hythe_task_message_release(struct hythe_task_message *message);

/**
 * Initialises options: `hythe_spawn_options_init(&options, sizeof options)`. Any thread.
 *
 * Requires:
 * `options` points to `size` bytes.
 */
int hythe_spawn_options_init(struct hythe_spawn_options *options, size_t size);

/**
 * Spawns tasks of this job, all or none. Their numbers go to `tasks`, which has places for `count`
 * of the options; NULL: they are not wanted. Returns how many. Their failure does not end the job.
 * HYTHE_ERUNNER says what the runner of the job says, for instance that there is no such program;
 * HYTHE_ENOTASK: there is no such host or architecture. Waits for the runner, and other hosts, for
 * at most 30 s.
 *
 * Requires:
 * `options` are initialised; the lists in it end with NULL.
 */
int hythe_task_spawn(const struct hythe_task *task,
                     const struct hythe_spawn_options *options,
                     uint32_t *tasks);

/** The library's version as text, "0.1.0". Any thread, at any time. */
const char *hythe_version(void);

/**
 * Makes a wait set for ports of this node, and for file descriptors. The result is the caller's,
 * until hythe_wait_set_close(). HYTHE_EWAITSET: too many open files. Does not block.
 */
int hythe_wait_set_open(const struct hythe_node *node, struct hythe_wait_set **wait_set);

/**
 * Closes a wait set, or does nothing for NULL. What was attached stays open. Consumes `wait_set`.
 */
void hythe_wait_set_close(struct hythe_wait_set *wait_set);

/**
 * Attaches a subscriber, to wait for its messages; reports name it by `key`. The caller keeps the
 * subscriber, which detaches itself when it is closed. HYTHE_EATTACHED: it is attached to a wait
 * set already. HYTHE_EARGUMENT: it belongs to another node.
 */
int hythe_wait_set_attach_subscriber(struct hythe_wait_set *wait_set,
                                     struct hythe_subscriber *subscriber,
                                     uint64_t key);

/** Attaches a server, to wait for its requests. Otherwise as hythe_wait_set_attach_subscriber(). */
int hythe_wait_set_attach_server(struct hythe_wait_set *wait_set,
                                 struct hythe_server *server,
                                 uint64_t key);

/**
 * Attaches a client, to wait for its replies, and for the end of servers that owe it one.
 * Otherwise as hythe_wait_set_attach_subscriber().
 */
int hythe_wait_set_attach_client(struct hythe_wait_set *wait_set,
                                 struct hythe_client *client,
                                 uint64_t key);

/** Attaches a listener, to wait for its events. Otherwise as hythe_wait_set_attach_subscriber(). */
int hythe_wait_set_attach_listener(struct hythe_wait_set *wait_set,
                                   struct hythe_listener *listener,
                                   uint64_t key);

/**
 * Attaches a file descriptor, to wait until it is HYTHE_READABLE, HYTHE_WRITABLE, or either. The
 * wait set keeps a duplicate until hythe_wait_set_detach(). HYTHE_EWAITSET: a kind of file that
 * is always ready, or not open.
 */
int hythe_wait_set_attach_fd(struct hythe_wait_set *wait_set,
                             int file,
                             uint32_t interest,
                             uint64_t key);

/** Detaches all ports and file descriptors with this key. Returns their number. Does not block. */
int hythe_wait_set_detach(struct hythe_wait_set *wait_set, uint64_t key);

/**
 * Waits until something is ready. Returns the number of reports in `ready`, at most `places`; the
 * next wait returns those that do not fit. 0: `timeout_ns` has passed. A reported port may have
 * no message: try to take, do not wait for one. Blocks for at most `timeout_ns`.
 * Requires:
 * `ready` points to `places` structs.
 */
int hythe_wait_set_wait(struct hythe_wait_set *wait_set,
                        uint64_t timeout_ns,
                        struct hythe_ready *ready,
                        size_t places);

/**
 * The wait set as a file descriptor, for poll(), epoll and event loops: readable while something
 * may be ready. Only a hythe_wait_set_wait() that returns 0 makes it unreadable: call that with a
 * time-out of 0 until then. It belongs to the wait set: never close it.
 */
int hythe_wait_set_fd(const struct hythe_wait_set *wait_set);

/**
 * As sem_open(3): with O_CREAT in `oflag`, a mode_t and an unsigned value follow. NULL for
 * SEM_FAILED.
 */
static inline struct hythe_sem *hythe_sem_open(const char *name, int oflag, ...)
{
    unsigned mode = 0, value = 0;
    if (oflag & O_CREAT) {
        va_list arguments;
        va_start(arguments, oflag);
        mode = va_arg(arguments, unsigned);
        value = va_arg(arguments, unsigned);
        va_end(arguments);
    }
    return hythe_sem_open_with(name, oflag, mode, value);
}

/** As mq_open(3): with O_CREAT in `oflag`, a mode_t and a const struct mq_attr * follow. */
static inline hythe_mqd_t hythe_mq_open(const char *name, int oflag, ...)
{
    unsigned mode = 0;
    const struct mq_attr *attributes = NULL;
    if (oflag & O_CREAT) {
        va_list arguments;
        va_start(arguments, oflag);
        mode = va_arg(arguments, unsigned);
        attributes = va_arg(arguments, const struct mq_attr *);
        va_end(arguments);
    }
    return hythe_mq_open_with(name, oflag, mode, attributes);
}

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* HYTHE_H */
