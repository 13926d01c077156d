"""An observer of vLLM's own offloading connector: it changes nothing, and counts where the laws are broken.

    --kv-transfer-config '{"kv_connector": "ShadowConnector", "kv_role": "kv_both",
                           "kv_connector_module_path": "kvstate.integrations.vllm",
                           "kv_connector_extra_config": {"cpu_bytes_to_use": 8589934592}}'

For people who want evidence before they switch. `connector` stands in vLLM's hooks, calls the stock connector first and
returns its very answer. What it saw goes onto a *tape*, which is all that happens inside a hook. A thread takes it from
there (`watch`), reads it (`reading`), and plays it to kvstate's own machines (`beside`): blocks of vLLM's allocator,
host slots, and a part for each job. Where they refuse what the stock connector did, a law was broken (`kinds`), and
that is counted, logged, and written as a record (`record`) for `kvstate autopsy`. See `docs/vllm-shadow.md`.
"""
