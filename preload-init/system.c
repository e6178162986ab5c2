/*
 * The system calls: see system.h. Everything that depends on the machine is in machine/. Never
 * keeps state but the page size.
 */
#include "system.h"

#include "machine/machine.h"

enum {
    O_WRITE_ONLY = 01,
    O_NO_TERMINAL = 0400,
    O_APPEND = 02000,
    O_NON_BLOCKING = 04000,
    O_CLOSE_ON_EXECUTION = 02000000,
    O_PATH_ONLY = 010000000,
    /* For reading, without waiting for the other end of a FIFO. */
    O_READ = O_NO_TERMINAL | O_NON_BLOCKING | O_CLOSE_ON_EXECUTION | MACHINE_O_LARGEFILE,
    RESOLVE_IN_ROOT = 0x10,
    AT_EMPTY_PATH = 0x1000,
    STATX_BASIC = 0x7ff,
    MODE_KIND = 0170000,
    MODE_REGULAR = 0100000,
    PROTECT_READ = 1,
    PROTECT_READ_WRITE = 3,
    MAP_SHARED = 1,
    MAP_PRIVATE_ANONYMOUS = 0x22,
    FADVISE_RANDOM = 1,
    POLL_OUT = 4,
    SIGNAL_PIPE = 13,
    SIGNALS_BLOCK = 0,
    SIGNALS_SET = 2,
    /*
     * The largest page of any machine that we know: a mapping that begins at a multiple of it is
     * always good.
     */
    LARGEST_PAGE = 65536,
    PACK_PAGE = 4096,
    RETRIES = 100,
    NS_PER_SECOND = 1000000000
};

/* What the kernel reads and writes, as it lays them out. */
struct kernel_time {
    long seconds;
    long nanoseconds;
};

struct kernel_sysinfo {
    long uptime;
    unsigned long loads[3];
    unsigned long total;
    unsigned long free;
    unsigned long shared;
    unsigned long buffers;
    unsigned long total_swap;
    unsigned long free_swap;
    uint16_t processes;
    uint16_t padding;
    unsigned long total_high;
    unsigned long free_high;
    uint32_t unit;
    char rest[64];
};

struct kernel_statx {
    uint32_t mask;
    uint32_t block_bytes;
    uint64_t attributes;
    uint32_t links;
    uint32_t user;
    uint32_t group;
    uint16_t mode;
    uint16_t padding;
    uint64_t inode;
    uint64_t size;
    uint64_t blocks;
    uint64_t attributes_mask;
    uint64_t times_before[6];
    int64_t mtime_seconds;
    uint32_t mtime_nanoseconds;
    uint32_t padding_time;
    uint64_t special_device;
    uint32_t device_major;
    uint32_t device_minor;
    uint64_t rest[14];
};

struct kernel_open_how {
    uint64_t flags;
    uint64_t mode;
    uint64_t resolve;
};

struct kernel_poll {
    int32_t handle;
    int16_t events;
    int16_t happened;
};

/* A struct that the kernel lays out otherwise does not compile. */
typedef char statx_has_its_size[sizeof(struct kernel_statx) == 256 ? 1 : -1];

/* This machine's pages, as a power of two. */
static unsigned page_shift = 12;

static long call(long number, long a, long b, long c, long d)
{
    long values[6];

    values[0] = a;
    values[1] = b;
    values[2] = c;
    values[3] = d;
    values[4] = 0;
    values[5] = 0;
    return machine_call(number, values);
}

static long call_six(long number, long a, long b, long c, long d, long e, long f)
{
    long values[6];

    values[0] = a;
    values[1] = b;
    values[2] = c;
    values[3] = d;
    values[4] = e;
    values[5] = f;
    return machine_call(number, values);
}

/* The halves of a 64-bit value, for machines whose registers have 32. */
#if defined(MACHINE_PAIRS)
static long low(uint64_t value)
{
    return (long)(uint32_t)value;
}

static long high(uint64_t value)
{
    return (long)(uint32_t)(value >> 32);
}
#endif

long system_open(long root, const char *path)
{
    struct kernel_open_how how = {O_READ, 0, RESOLVE_IN_ROOT};
    long handle;

    if (root == SYSTEM_CURRENT_DIRECTORY) {
        return call(CALL_OPENAT, root, (long)path, O_READ, 0);
    }
    handle = call(CALL_OPENAT2, root, (long)path, (long)&how, sizeof how);
    if (handle != -ERROR_NO_CALL && handle != -ERROR_NOT_PERMITTED) {
        return handle;
    }
    /* Linux before 5.6: links that begin with / are followed from the outer /. */
    while (*path == '/') {
        path++;
    }
    return call(CALL_OPENAT, root, (long)path, O_READ, 0);
}

long system_open_directory(const char *path)
{
    return call(CALL_OPENAT, SYSTEM_CURRENT_DIRECTORY, (long)path,
                MACHINE_O_DIRECTORY | O_PATH_ONLY | O_CLOSE_ON_EXECUTION, 0);
}

long system_open_log(const char *path)
{
    return call(CALL_OPENAT, SYSTEM_CURRENT_DIRECTORY, (long)path,
                O_WRITE_ONLY | O_APPEND | O_NO_TERMINAL | O_NON_BLOCKING | O_CLOSE_ON_EXECUTION |
                    MACHINE_O_LARGEFILE,
                0);
}

int system_exists(long root, const char *path)
{
    long handle = system_open(root, path);

    if (handle >= 0) {
        system_close(handle);
    }
    /* Whatever else went wrong: there is something by that name. */
    return handle != -ERROR_NO_ENTRY && handle != -ERROR_NO_DIRECTORY;
}

void system_close(long handle)
{
    (void)call(CALL_CLOSE, handle, 0, 0, 0);
}

static int64_t nanoseconds(int64_t seconds, uint32_t part)
{
    const int64_t most = INT64_MAX / NS_PER_SECOND - 1;

    if (seconds > most || seconds < -most) {
        return INT64_MIN;
    }
    return seconds * NS_PER_SECOND + part;
}

static uint32_t word_at(const uint32_t *words, size_t offset)
{
    return words[offset / sizeof *words];
}

/* Linux before 4.11 has no statx(). */
static long stat_by_old_call(long handle, struct system_file *file)
{
    uint32_t words[STAT_BYTES / sizeof(uint32_t)] = {0};
    long result = call(CALL_FSTAT, handle, (long)words, 0, 0);

    if (result < 0) {
        return result;
    }
    file->size = word_at(words, STAT_SIZE) | (uint64_t)word_at(words, STAT_SIZE + 4) << 32;
    file->inode = word_at(words, STAT_INODE) | (uint64_t)word_at(words, STAT_INODE + 4) << 32;
    file->device = word_at(words, 0) | (uint64_t)word_at(words, 4) << 32;
    file->is_regular = (word_at(words, STAT_MODE) & MODE_KIND) == MODE_REGULAR;
#if defined(MACHINE_PAIRS)
    file->mtime_part_ns = word_at(words, STAT_MTIME + 4);
    file->mtime_ns = nanoseconds((int32_t)word_at(words, STAT_MTIME), file->mtime_part_ns);
#else
    file->mtime_part_ns = word_at(words, STAT_MTIME + 8);
    file->mtime_ns = nanoseconds(
        (int64_t)(word_at(words, STAT_MTIME) | (uint64_t)word_at(words, STAT_MTIME + 4) << 32),
        file->mtime_part_ns);
#endif
    return 0;
}

long system_stat(long handle, struct system_file *file)
{
    struct kernel_statx told;
    long result =
        call_six(CALL_STATX, handle, (long)"", AT_EMPTY_PATH, STATX_BASIC, (long)&told, 0);

    if (result == -ERROR_NO_CALL || result == -ERROR_NOT_PERMITTED) {
        return stat_by_old_call(handle, file);
    }
    if (result < 0) {
        return result;
    }
    file->size = told.size;
    file->inode = told.inode;
    file->device = told.device_major | (uint64_t)told.device_minor << 32;
    file->is_regular = (told.mode & MODE_KIND) == MODE_REGULAR;
    file->mtime_ns = nanoseconds(told.mtime_seconds, told.mtime_nanoseconds);
    file->mtime_part_ns = told.mtime_nanoseconds;
    return 0;
}

long system_file_system(long handle, uint32_t *magic)
{
    /* Larger than the struct of any machine; the magic number is its first word everywhere. */
    uint64_t told[32] = {0};
#if defined(MACHINE_PAIRS)
    long result = call(CALL_FSTATFS, handle, STATFS_BYTES, (long)told, 0);
#else
    long result = call(CALL_FSTATFS, handle, (long)told, 0, 0);
#endif

    *magic = (uint32_t)told[0];
    return result;
}

static long pread_once(long handle, void *to, size_t bytes, uint64_t offset)
{
#if defined(MACHINE_PAIRS)
    return call_six(CALL_PREAD, handle, (long)to, (long)bytes, 0, low(offset), high(offset));
#else
    return call(CALL_PREAD, handle, (long)to, (long)bytes, (long)offset);
#endif
}

long system_pread(long handle, void *to, size_t bytes, uint64_t offset)
{
    long result = -ERROR_INTERRUPTED;
    int i;

    for (i = 0; i < RETRIES && result == -ERROR_INTERRUPTED; i++) {
        result = pread_once(handle, to, bytes, offset);
    }
    return result;
}

long system_readahead(long handle, uint64_t offset, size_t bytes)
{
#if defined(MACHINE_PAIRS)
    return call_six(CALL_READAHEAD, handle, 0, low(offset), high(offset), (long)bytes, 0);
#else
    return call(CALL_READAHEAD, handle, (long)offset, (long)bytes, 0);
#endif
}

void system_read_exactly(long handle)
{
    /* An advice: a file system that does not take it reads more, and nothing breaks. */
#if defined(MACHINE_PAIRS)
    (void)call_six(CALL_FADVISE, handle, FADVISE_RANDOM, 0, 0, 0, 0);
#else
    (void)call(CALL_FADVISE, handle, 0, 0, FADVISE_RANDOM);
#endif
}

/*
 * A closed pipe must end neither us nor our report, and its signal must not be what the next
 * program begins with: blocked while writing, taken back if it came, and the mask as it was.
 */
long system_write(long handle, const void *from, size_t bytes)
{
    const uint64_t pipe = (uint64_t)1 << (SIGNAL_PIPE - 1);
    struct kernel_time at_once = {0, 0};
    uint64_t before = 0;
    long masked =
        call(CALL_RT_SIGPROCMASK, SIGNALS_BLOCK, (long)&pipe, (long)&before, sizeof before);
    long result = call(CALL_WRITE, handle, (long)from, (long)bytes, 0);

    if (masked == 0 && (before & pipe) == 0) {
        (void)call(CALL_RT_SIGTIMEDWAIT, (long)&pipe, 0, (long)&at_once, sizeof pipe);
        (void)call(CALL_RT_SIGPROCMASK, SIGNALS_SET, (long)&before, 0, sizeof before);
    }
    return result;
}

int system_wait_writable(long handle, uint32_t milliseconds)
{
    struct kernel_poll poll = {(int32_t)handle, POLL_OUT, 0};
    struct kernel_time limit = {0, 0};
    long result;

    limit.seconds = (long)(milliseconds / 1000u);
    limit.nanoseconds = (long)(milliseconds % 1000u) * 1000000;
    result = call_six(CALL_PPOLL, (long)&poll, 1, (long)&limit, 0, 0, 0);
    /* A kernel that cannot say (before 2.6.16) is taken to be ready. */
    return result == -ERROR_NO_CALL || (result > 0 && (poll.happened & POLL_OUT) != 0);
}

static void *map(size_t bytes, long protection, long flags, long handle, uint64_t offset)
{
#if defined(MACHINE_PAIRS)
    long result = call_six(CALL_MMAP, 0, (long)bytes, protection, flags, handle,
                           (long)(uint32_t)(offset / PACK_PAGE));
#else
    long result = call_six(CALL_MMAP, 0, (long)bytes, protection, flags, handle, (long)offset);
#endif

    return (unsigned long)result >= (unsigned long)SYSTEM_ERRORS_FROM ? NULL : (void *)result;
}

void *system_allocate(size_t bytes)
{
    return map(bytes, PROTECT_READ_WRITE, MAP_PRIVATE_ANONYMOUS, -1, 0);
}

void system_free(void *memory, size_t bytes)
{
    (void)call(CALL_MUNMAP, (long)memory, (long)bytes, 0, 0);
}

void system_set_page_bytes(size_t bytes)
{
    unsigned shift = 12;

    /* Larger ones than we know would be no pages. */
    while (((size_t)1 << shift) < bytes && ((size_t)1 << shift) < LARGEST_PAGE) {
        shift++;
    }
    page_shift = shift;
}

int system_is_same_page(uint64_t one, uint64_t other)
{
    return one >> page_shift == other >> page_shift;
}

int system_is_resident(long handle, uint64_t offset)
{
    unsigned char resident[LARGEST_PAGE / PACK_PAGE] = {0};
    size_t within = (size_t)(offset % LARGEST_PAGE);
    size_t bytes = within + PACK_PAGE;
    void *mapped = map(bytes, PROTECT_READ, MAP_SHARED, handle, offset - within);
    long result;

    if (mapped == NULL) {
        return -1;
    }
    result = call(CALL_MINCORE, (long)mapped, (long)bytes, (long)resident, 0);
    system_free(mapped, bytes);
    return result < 0 ? -1 : resident[within >> page_shift] & 1;
}

long system_memory(struct system_memory *memory)
{
    struct kernel_sysinfo told = {0};
    long result = call(CALL_SYSINFO, (long)&told, 0, 0, 0);
    uint64_t unit = told.unit == 0 ? 1 : told.unit;

    memory->total = told.total * unit;
    memory->free = ((uint64_t)told.free + told.buffers) * unit;
    return result;
}

uint64_t system_time(enum system_clock clock)
{
    struct kernel_time now = {0, 0};

    if (call(CALL_CLOCK_GETTIME, (long)clock, (long)&now, 0, 0) < 0 &&
        clock != SYSTEM_CLOCK_MONOTONIC) {
        /* Linux before 2.6.39, which does not count what was slept through. */
        (void)call(CALL_CLOCK_GETTIME, SYSTEM_CLOCK_MONOTONIC, (long)&now, 0, 0);
    }
    return (uint64_t)now.seconds * NS_PER_SECOND + (uint64_t)now.nanoseconds;
}

void system_sleep_ms(uint32_t milliseconds)
{
    struct kernel_time time = {0, 0};

    time.seconds = (long)(milliseconds / 1000u);
    time.nanoseconds = (long)(milliseconds % 1000u) * 1000000;
    (void)call(CALL_NANOSLEEP, (long)&time, 0, 0, 0);
}

long system_process_id(void)
{
    return call(CALL_GETPID, 0, 0, 0, 0);
}

long system_execute(const char *path, char **arguments, char **environment)
{
    return call(CALL_EXECVE, (long)path, (long)arguments, (long)environment, 0);
}

void system_exit(int code)
{
    for (;;) {
        (void)call(CALL_EXIT_GROUP, code, 0, 0, 0);
    }
}
