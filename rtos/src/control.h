/*
 * What travels over `core/control` (spec/control.md): methods, results, and where the words of rows
 * stand. Used by service.c and the tests.
 */
#ifndef HYTHE_CONTROL_H
#define HYTHE_CONTROL_H

#define HYTHE_CONTROL_VERSION 1u

enum hythe_control_method {
    HYTHE_CONTROL_HELLO = 64,
    HYTHE_CONTROL_MAKE = 65,
    HYTHE_CONTROL_TASKS = 66,
    HYTHE_CONTROL_START = 67,
    HYTHE_CONTROL_STOP = 68,
    HYTHE_CONTROL_KILL = 69,
    HYTHE_CONTROL_STATE = 70,
    HYTHE_CONTROL_PEEK = 71,
    HYTHE_CONTROL_SHUTDOWN = 74
};

/* Method numbers from here on belong to Hythe. */
#define HYTHE_METHOD_OF_HYTHE 0x80000000u

/* Results: Linux's numbers. */
enum hythe_control_result {
    HYTHE_CONTROL_PERMANENT = -1,
    HYTHE_CONTROL_UNKNOWN = -2,
    HYTHE_CONTROL_NOT_RUNNING = -3,
    HYTHE_CONTROL_TOO_LONG = -7,
    HYTHE_CONTROL_NO_MEMORY = -12,
    HYTHE_CONTROL_MALFORMED = -22,
    HYTHE_CONTROL_TOO_MANY = -24,
    HYTHE_CONTROL_NO_METHOD = -38,
    HYTHE_CONTROL_NOT_BEGUN = -110,
    HYTHE_CONTROL_RUNS = -114
};

/* A row of TASKS. */
enum {
    HYTHE_TASK_AT_NAME = 0,
    HYTHE_TASK_AT_NUMBER = 32,
    HYTHE_TASK_AT_STATE = 36,
    HYTHE_TASK_AT_FLAGS = 40,
    HYTHE_TASK_AT_PRIORITY = 44,
    HYTHE_TASK_AT_STACK_BYTES = 48,
    HYTHE_TASK_AT_STACK_FREE = 52,
    HYTHE_TASK_AT_RUN_TIME_LOW = 56,
    HYTHE_TASK_AT_RUN_TIME_HIGH = 60,
    HYTHE_TASK_AT_STARTS = 64,
    HYTHE_TASK_AT_KILLS = 68,
    HYTHE_TASK_AT_HELD = 72,
    HYTHE_TASK_AT_RETURNED = 76,
    HYTHE_TASK_AT_FORGOTTEN = 80,
    HYTHE_TASK_AT_FAULT = 84,
    HYTHE_TASK_AT_FAULT_ADDRESS = 88,
    HYTHE_TASK_AT_FAULT_PC = 92,
    HYTHE_TASK_ROW_BYTES = 96
};

/* States in a row. */
enum {
    HYTHE_TASK_IS_STOPPED = 0,
    HYTHE_TASK_IS_STARTING = 1,
    HYTHE_TASK_IS_RUNNING = 2,
    HYTHE_TASK_IS_READY = 3,
    HYTHE_TASK_IS_BLOCKED = 4,
    HYTHE_TASK_IS_KILLED = 5,
    HYTHE_TASK_IS_FAULTED = 6
};

/* Flags in a row: those of enum hythe_task_flag, and this. */
#define HYTHE_TASK_FLAG_ASKED_TO_STOP 4u

/* A row of STATE: one port that is attached. */
enum {
    HYTHE_PORT_AT_ENDPOINT = 0,
    HYTHE_PORT_AT_PORT = 4,
    HYTHE_PORT_AT_SESSION = 8,
    HYTHE_PORT_AT_INBOX_HEAD = 12,
    HYTHE_PORT_AT_OUTBOX_TAIL = 16,
    HYTHE_PORT_AT_HEAD_SEEN = 20,
    HYTHE_PORT_AT_HELD = 24,
    HYTHE_PORT_AT_WINDOW = 28,
    HYTHE_PORT_AT_FLAGS = 32,
    HYTHE_PORT_ROW_BYTES = 36
};

/* Flags of a port. */
#define HYTHE_PORT_FLAG_QUARANTINED 1u
#define HYTHE_PORT_FLAG_LATE 2u

#endif
