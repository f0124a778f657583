/* parting PATH SIZE MS: leave a grandchild that holds stdout for MS, write SIZE bytes, note the instant, end. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    long left = atol(argv[2]);
    char *buffer = calloc(1, 4096);
    struct timespec now;
    FILE *file;

    if (fork() == 0) {
        usleep(1000L * atol(argv[3]));
        _exit(0);
    }
    while (left > 0) {
        ssize_t written = write(1, buffer, left < 4096 ? left : 4096);
        if (written < 0)
            return 1;
        left -= written;
    }
    file = fopen(argv[1], "w");
    clock_gettime(CLOCK_MONOTONIC, &now);
    fprintf(file, "%lld\n", now.tv_sec * 1000000000LL + now.tv_nsec);
    fclose(file);
    _exit(0);
}
