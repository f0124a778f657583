/* emitter LINES: write so many lines, one each ms; each is the instant of its write, in ns of CLOCK_MONOTONIC. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char line[32];

    for (int count = atoi(argv[1]); count > 0; count--) {
        struct timespec now;
        usleep(1000);
        clock_gettime(CLOCK_MONOTONIC, &now);
        int length = snprintf(line, sizeof line, "%lld\n", now.tv_sec * 1000000000LL + now.tv_nsec);
        if (write(1, line, length) != length)
            return 1;
    }
    return 0;
}
