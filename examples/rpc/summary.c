/* See summary.h. Never trusts a byte of the argument: nanopb checks what it decodes. */
#include "summary.h"

#include <pb_decode.h>
#include <pb_encode.h>

#include "telemetry.pb.h"

int summarize(const uint8_t *argument, size_t argument_bytes, uint8_t *result, size_t capacity,
              size_t *bytes)
{
    telemetry_Window window = telemetry_Window_init_zero;
    telemetry_Summary summary = telemetry_Summary_init_zero;
    pb_istream_t in = pb_istream_from_buffer(argument, argument_bytes);
    pb_ostream_t out = pb_ostream_from_buffer(result, capacity);
    pb_size_t i;

    if (!pb_decode(&in, telemetry_Window_fields, &window))
        return ERROR_NO_WINDOW;
    if (window.samples_count == 0)
        return ERROR_EMPTY;
    summary.window = window.number;
    summary.count = window.samples_count;
    summary.least = window.samples[0];
    summary.most = window.samples[0];
    for (i = 0; i < window.samples_count; i++) {
        int32_t sample = window.samples[i];
        summary.least = sample < summary.least ? sample : summary.least;
        summary.most = sample > summary.most ? sample : summary.most;
        summary.sum += sample;
    }
    /* It has no part that could fail but for want of space. */
    (void)pb_get_encoded_size(bytes, telemetry_Summary_fields, &summary);
    if (*bytes <= capacity)
        (void)pb_encode(&out, telemetry_Summary_fields, &summary);
    return 0;
}
