/*
 * pvm_packf and pvm_unpackf: a format like printf's says what is packed.
 *
 * Called through the functions of those names in format.rs, which are exported. An item is
 * `%[count][.stride][hlu]` and one of `cdfxs`; `%+` begins a message. With a count or a stride the
 * argument is an address, without it is a value; unpacking takes addresses always. Never reads
 * behind the end of the format.
 */
#include <stdarg.h>
#include <stddef.h>

enum {
    BAD_PARAMETER = -2
};

int pvm_initsend(int encoding);
int pvm_pkbyte(char *items, int count, int stride);
int pvm_pkcplx(float *items, int count, int stride);
int pvm_pkdcplx(double *items, int count, int stride);
int pvm_pkdouble(double *items, int count, int stride);
int pvm_pkfloat(float *items, int count, int stride);
int pvm_pkint(int *items, int count, int stride);
int pvm_pkuint(unsigned int *items, int count, int stride);
int pvm_pklong(long *items, int count, int stride);
int pvm_pkulong(unsigned long *items, int count, int stride);
int pvm_pkshort(short *items, int count, int stride);
int pvm_pkushort(unsigned short *items, int count, int stride);
int pvm_pkstr(char *text);
int pvm_upkbyte(char *items, int count, int stride);
int pvm_upkcplx(float *items, int count, int stride);
int pvm_upkdcplx(double *items, int count, int stride);
int pvm_upkdouble(double *items, int count, int stride);
int pvm_upkfloat(float *items, int count, int stride);
int pvm_upkint(int *items, int count, int stride);
int pvm_upkuint(unsigned int *items, int count, int stride);
int pvm_upklong(long *items, int count, int stride);
int pvm_upkulong(unsigned long *items, int count, int stride);
int pvm_upkshort(short *items, int count, int stride);
int pvm_upkushort(unsigned short *items, int count, int stride);
int pvm_upkstr(char *text);
int hythe_pvm_vpackf(const char *format, va_list arguments);
int hythe_pvm_vunpackf(const char *format, va_list arguments);
int hythe_pvm_packf(const char *format, ...);
int hythe_pvm_unpackf(const char *format, ...);

struct item {
    int count;
    int stride;
    int is_address;
    int is_short;
    int is_long;
    int is_unsigned;
    char kind;
};

/* va_list may be an array, which a parameter is not: its address goes into this. */
struct arguments {
    va_list list;
};

static int read_number(const char **format, struct arguments *arguments)
{
    int number = 0;
    if (**format == '*') {
        ++*format;
        return va_arg(arguments->list, int);
    }
    while (**format >= '0' && **format <= '9') {
        if (number > 100000000)
            return -1;
        number = number * 10 + (**format - '0');
        ++*format;
    }
    return number;
}

/* Behind the `%`. Moves `format` behind the item. */
static int read_item(const char **format, struct arguments *arguments, struct item *item)
{
    *item = (struct item){.count = 1, .stride = 1};
    if (**format == '*' || (**format >= '0' && **format <= '9')) {
        item->is_address = 1;
        item->count = read_number(format, arguments);
    }
    if (**format == '.') {
        ++*format;
        item->is_address = 1;
        item->stride = read_number(format, arguments);
    }
    for (;; ++*format) {
        if (**format == 'h')
            item->is_short = 1;
        else if (**format == 'l')
            item->is_long = 1;
        else if (**format == 'u')
            item->is_unsigned = 1;
        else
            break;
    }
    item->kind = **format;
    if (item->kind == '\0' || item->count < 0)
        return BAD_PARAMETER;
    ++*format;
    return 0;
}

static int pack_integers(struct item *item, void *items)
{
    if (item->is_short) {
        return item->is_unsigned ? pvm_pkushort(items, item->count, item->stride)
                                 : pvm_pkshort(items, item->count, item->stride);
    }
    if (item->is_long) {
        return item->is_unsigned ? pvm_pkulong(items, item->count, item->stride)
                                 : pvm_pklong(items, item->count, item->stride);
    }
    return item->is_unsigned ? pvm_pkuint(items, item->count, item->stride)
                             : pvm_pkint(items, item->count, item->stride);
}

static int pack_array(struct item *item, void *items)
{
    switch (item->kind) {
    case 'c':
        return pvm_pkbyte(items, item->count, item->stride);
    case 'd':
        return pack_integers(item, items);
    case 'f':
        return item->is_long ? pvm_pkdouble(items, item->count, item->stride)
                             : pvm_pkfloat(items, item->count, item->stride);
    case 'x':
        return item->is_long ? pvm_pkdcplx(items, item->count, item->stride)
                             : pvm_pkcplx(items, item->count, item->stride);
    default:
        return BAD_PARAMETER;
    }
}

static int pack_value(struct item *item, struct arguments *arguments)
{
    if (item->kind == 'c') {
        char value = (char)va_arg(arguments->list, int);
        return pack_array(item, &value);
    }
    if (item->kind == 'd' && item->is_long) {
        long value = va_arg(arguments->list, long);
        return pack_array(item, &value);
    }
    if (item->kind == 'd' && item->is_short) {
        short value = (short)va_arg(arguments->list, int);
        return pack_array(item, &value);
    }
    if (item->kind == 'd') {
        int value = va_arg(arguments->list, int);
        return pack_array(item, &value);
    }
    if (item->kind == 'f') {
        double value = va_arg(arguments->list, double);
        float narrow = (float)value;
        return item->is_long ? pack_array(item, &value) : pack_array(item, &narrow);
    }
    /* A complex number is no argument in C: its address is. */
    return pack_array(item, va_arg(arguments->list, void *));
}

static int unpack_integers(struct item *item, void *items)
{
    if (item->is_short) {
        return item->is_unsigned ? pvm_upkushort(items, item->count, item->stride)
                                 : pvm_upkshort(items, item->count, item->stride);
    }
    if (item->is_long) {
        return item->is_unsigned ? pvm_upkulong(items, item->count, item->stride)
                                 : pvm_upklong(items, item->count, item->stride);
    }
    return item->is_unsigned ? pvm_upkuint(items, item->count, item->stride)
                             : pvm_upkint(items, item->count, item->stride);
}

static int unpack_array(struct item *item, void *items)
{
    switch (item->kind) {
    case 'c':
        return pvm_upkbyte(items, item->count, item->stride);
    case 'd':
        return unpack_integers(item, items);
    case 'f':
        return item->is_long ? pvm_upkdouble(items, item->count, item->stride)
                             : pvm_upkfloat(items, item->count, item->stride);
    case 'x':
        return item->is_long ? pvm_upkdcplx(items, item->count, item->stride)
                             : pvm_upkcplx(items, item->count, item->stride);
    case 's':
        return pvm_upkstr(items);
    default:
        return BAD_PARAMETER;
    }
}

static int pack_item(const char **format, struct arguments *arguments)
{
    struct item item;
    int outcome = read_item(format, arguments, &item);
    if (outcome < 0)
        return outcome;
    if (item.kind == 's')
        return pvm_pkstr(va_arg(arguments->list, char *));
    if (item.is_address)
        return pack_array(&item, va_arg(arguments->list, void *));
    return pack_value(&item, arguments);
}

static int unpack_item(const char **format, struct arguments *arguments)
{
    struct item item;
    int outcome = read_item(format, arguments, &item);
    return outcome < 0 ? outcome : unpack_array(&item, va_arg(arguments->list, void *));
}

static int walk(const char *format, struct arguments *arguments, int is_packing)
{
    int outcome = format ? 0 : BAD_PARAMETER;
    while (outcome >= 0 && *format != '\0') {
        if (*format != '%') {
            ++format;
        } else if (format[1] == '+') {
            int encoding = va_arg(arguments->list, int);
            format += 2;
            outcome = is_packing ? pvm_initsend(encoding) : BAD_PARAMETER;
        } else {
            ++format;
            outcome = is_packing ? pack_item(&format, arguments) : unpack_item(&format, arguments);
        }
    }
    return outcome < 0 ? outcome : 0;
}

int hythe_pvm_vpackf(const char *format, va_list list)
{
    struct arguments arguments;
    va_copy(arguments.list, list);
    int outcome = walk(format, &arguments, 1);
    va_end(arguments.list);
    return outcome;
}

int hythe_pvm_vunpackf(const char *format, va_list list)
{
    struct arguments arguments;
    va_copy(arguments.list, list);
    int outcome = walk(format, &arguments, 0);
    va_end(arguments.list);
    return outcome;
}

int hythe_pvm_packf(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int outcome = hythe_pvm_vpackf(format, list);
    va_end(list);
    return outcome;
}

int hythe_pvm_unpackf(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int outcome = hythe_pvm_vunpackf(format, list);
    va_end(list);
    return outcome;
}
