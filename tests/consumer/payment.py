"""A payload as a model of pydantic."""

from pydantic import BaseModel, ConfigDict


class Payment(BaseModel):
    """What the handler `modelled` of `worker_handlers` takes."""

    model_config = ConfigDict(extra="forbid")

    amount: int
    card: str = ""
