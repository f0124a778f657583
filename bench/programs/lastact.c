/* lastact MS: live for so long; the last act is to write the instant, in ns of CLOCK_MONOTONIC. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char text[32];
    struct timespec now;

    usleep(1000L * atol(argv[1]));
    clock_gettime(CLOCK_MONOTONIC, &now);
    int length = snprintf(text, sizeof text, "%lld", now.tv_sec * 1000000000LL + now.tv_nsec);
    _exit(write(1, text, length) != length);
}
