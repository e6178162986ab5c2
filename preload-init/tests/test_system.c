/*
 * The thin layer of system calls against the C library, on a file of our own. Never leaves the file
 * behind.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "../system.h"
#include "test.h"

static void check_memory(void)
{
    struct system_memory memory;
    struct sysinfo expected;

    CHECK_EQUAL(system_memory(&memory), 0);
    CHECK_EQUAL(sysinfo(&expected), 0);
    CHECK_EQUAL(memory.total, (long long)expected.totalram * expected.mem_unit);
    CHECK(memory.free > 0 && memory.free <= memory.total);
}

/* Which bytes come together depends on the machine's pages, and these are told. */
static void check_pages(void)
{
    static const size_t sizes[] = {4096, 16384, 65536};
    unsigned i;

    for (i = 0; i < 3; i++) {
        system_set_page_bytes(sizes[i]);
        CHECK_EQUAL(system_is_same_page(65536, 65536 + sizes[i] - 1), 1);
        CHECK_EQUAL(system_is_same_page(65536, 65536 + sizes[i]), 0);
        CHECK_EQUAL(system_is_same_page(65535, 65536), 0);
    }
    system_set_page_bytes((size_t)sysconf(_SC_PAGESIZE));
}

void test_old_stat(void)
{
    char path[] = "/tmp/preload-init-XXXXXX";
    int handle = mkstemp(path);
    struct timespec times[2] = {{1, 2}, {-3, 999999999}};
    struct system_file file;
    struct statfs system;
    struct stat expected;
    uint32_t magic;

    CHECK(handle >= 0);
    CHECK_EQUAL(ftruncate(handle, 5000), 0);
    CHECK_EQUAL(futimens(handle, times), 0);
    CHECK_EQUAL(fstat(handle, &expected), 0);
    CHECK_EQUAL(system_stat(handle, &file), 0);
    CHECK_EQUAL(file.size, 5000);
    CHECK_EQUAL(file.inode, expected.st_ino);
    CHECK_EQUAL(file.mtime_ns, -2000000001LL);
    CHECK_EQUAL(file.is_regular, 1);
    CHECK_EQUAL(system_file_system(handle, &magic), 0);
    CHECK_EQUAL(fstatfs(handle, &system), 0);
    CHECK_EQUAL(magic, (uint32_t)system.f_type);
    CHECK_EQUAL(system_exists(SYSTEM_CURRENT_DIRECTORY, path), 1);
    CHECK_EQUAL(unlink(path), 0);
    CHECK_EQUAL(system_exists(SYSTEM_CURRENT_DIRECTORY, path), 0);
    CHECK_EQUAL(system_open(SYSTEM_CURRENT_DIRECTORY, path), -ENOENT);
    system_close(handle);
    CHECK_EQUAL(fcntl(handle, F_GETFD), -1);
    CHECK_EQUAL(system_stat(handle, &file), -EBADF);
    check_memory();
    check_pages();
    CHECK(system_time(SYSTEM_CLOCK_BOOT) > 0);
    CHECK_EQUAL(system_process_id(), getpid());
}
