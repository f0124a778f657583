/* noop: end at once. */
int main(void)
{
    return 0;
}
