/* The program `rlx` of the Python package: the library that lies beside it has its code. No function of rlx/c.h, and no
 * promise. */
int rlx_program_main(int argc, char** argv);

int main(int argc, char** argv) { return rlx_program_main(argc, argv); }
