/* producer SIZE [PIECE [HOLD]]: write SIZE bytes of zeros in writes of PIECE bytes, then live on for HOLD ms. */
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    long long left = atoll(argv[1]);
    long piece = argc > 2 ? atol(argv[2]) : 65536;
    char *buffer = calloc(1, piece);

    while (left > 0) {
        ssize_t written = write(1, buffer, left < piece ? left : piece);
        if (written < 0)
            return 1;
        left -= written;
    }
    if (argc > 3)
        usleep(1000L * atol(argv[3]));
    return 0;
}
