/* lastword PATH WORDS EVERY: say so many words, one each EVERY ms; then wait for TERM.
   PATH gets the start, the last word, and the arrival of TERM, in ns of CLOCK_MONOTONIC; less when TERM came early. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long long now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000LL + at.tv_nsec;
}

int main(int argc, char **argv)
{
    long long start = now(), last = 0;
    struct timespec patience = {5, 0};
    sigset_t term, early;

    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, NULL);
    for (int count = atoi(argv[2]); count > 0; count--) {
        usleep(1000L * atol(argv[3]));
        if (write(1, "word\n", 5) != 5)
            return 1;
        last = now();
    }
    FILE *file = fopen(argv[1], "w");
    sigpending(&early);
    if (!sigismember(&early, SIGTERM) && sigtimedwait(&term, NULL, &patience) == SIGTERM)
        fprintf(file, "%lld %lld %lld\n", start, last, now());
    fclose(file);
    return 0;
}
