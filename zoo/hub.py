"""Uploads to the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path

from zoo.errors import ZooError


def push_folder(folder: Path, repository: str, *, private: bool = False) -> str:
    """Upload a model's folder to the repository OWNER/NAME, created if needed; returns the commit's URL.

    Raises ZooError if the hub cannot be reached or refuses the upload; the folder is not changed.
    """
    from huggingface_hub import HfApi

    try:
        api = HfApi()
        api.create_repo(repository, private=private, exist_ok=True)
        message = f"Upload {folder.resolve().name}, made by zoo-bench"
        commit = api.upload_folder(repo_id=repository, folder_path=folder, commit_message=message)
    except Exception as error:  # the hub's client raises many kinds; each means that nothing was published
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise ZooError(
            f"{folder} was not pushed to {repository}: {reason}. It lies there complete; log in with `hf auth login`,"
            f" then `hf upload {repository} {folder}`."
        ) from error
    return str(commit.commit_url)
