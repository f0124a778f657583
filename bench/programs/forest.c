/* forest GROUP SESSIONS DAEMONS: become a tree of that many processes and wait.
   GROUP in the leader's own group, itself included, up to thirty branches with leaves; SESSIONS children in sessions
   of their own; DAEMONS forked twice, so that their parent is gone. Each writes one byte to stdout when it is there,
   and none lives longer than two minutes. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void stay(void)
{
    alarm(120);
    if (write(1, ".", 1) != 1)
        _exit(1);
    for (;;)
        pause();
}

static void grow(int count, int own_session)
{
    while (count-- > 0)
        if (fork() == 0) {
            if (own_session)
                setsid();
            stay();
        }
}

int main(int argc, char **argv)
{
    int group = atoi(argv[1]) - 1, sessions = atoi(argv[2]), daemons = atoi(argv[3]);
    int branches = group < 30 ? group : 30;

    signal(SIGCHLD, SIG_DFL);
    for (int branch = 0; branch < branches; branch++) {
        int leaves = (group - branches) / branches + (branch < (group - branches) % branches);
        if (fork() == 0) {
            grow(leaves, 0);
            stay();
        }
    }
    grow(sessions, 1);
    while (daemons-- > 0) {
        pid_t between = fork();
        if (between == 0) {
            setsid();
            grow(1, 0);
            _exit(0);
        }
        waitpid(between, NULL, 0);
    }
    stay();
}
