"""llamacpp.py SOURCE OUT TYPE: llama.cpp's quantiser, for scripts/conversions; needs llama-cpp-python.

The types of the tensors are told, so that both programs spend the same bits.
"""
import ctypes, os, sys
from llama_cpp import llama_cpp as lib
source, out, kind = sys.argv[1:]
callback = lib.llama_log_callback(lambda level, text, _: None)
lib.llama_log_set(callback, ctypes.c_void_p(0))
lib.llama_backend_init()
p = lib.llama_model_quantize_default_params()
p.nthread, p.allow_requantize = 2, True
mix = kind.endswith("_m")
p.pure = not mix
name = {"q5_k": "Q5_K_S", "q4_k": "Q4_K_S", "q3_k": "Q3_K_S", "q2_k": "Q2_K"}.get(kind, kind.upper())
p.ftype = getattr(lib, "LLAMA_FTYPE_MOSTLY_" + name)
if not mix:  # of a mix they are Q6_K by its own rules, or Q8_0 where the rows are no superblocks
    p.output_tensor_type = p.token_embedding_type = 8  # ggml's Q8_0
sys.exit(lib.llama_model_quantize(os.fsencode(source), os.fsencode(out), ctypes.byref(p)))
