"""netgain beside other engines: same model, same token ids, alternately, in one run."""
