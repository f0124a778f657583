/* ticker PERIOD: write a line every so many ms, each program at another moment of the period; 0: be quiet for ever. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    long period = atol(argv[1]) * 1000000L;
    struct timespec next;
    char line[64];

    if (!period)
        for (;;)
            pause();
    clock_gettime(CLOCK_MONOTONIC, &next);
    next.tv_nsec += getpid() * 7919L % 1000 * (period / 1000);
    for (long count = 0;; count++) {
        next.tv_sec += next.tv_nsec / 1000000000L;
        next.tv_nsec %= 1000000000L;
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
        int length = snprintf(line, sizeof line, "%08ld a line as a quiet server writes it\n", count);
        if (write(1, line, length) != length)
            return 1;
        next.tv_nsec += period;
    }
}
