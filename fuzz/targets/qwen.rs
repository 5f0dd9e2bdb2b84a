#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| annals_fuzz::run("qwen", data));
