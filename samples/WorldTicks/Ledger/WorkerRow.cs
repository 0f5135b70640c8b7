namespace WorldTicks.Ledger;

/// <summary>What a worker says about itself twice a second.</summary>
/// <param name="Name">What it is called.</param>
/// <param name="Handling">How many tasks it holds.</param>
/// <param name="GivenBack">How many it gave back unhandled.</param>
/// <param name="Refused">How many it had run when its claim had ended: they are others' by then.</param>
/// <param name="HasStopped">It ended in good order.</param>
/// <param name="Silence">Since it last said something.</param>
internal sealed record WorkerRow(string Name, int Handling, long GivenBack, long Refused, bool HasStopped, TimeSpan Silence)
{
    private static readonly TimeSpan LongestSilence = TimeSpan.FromSeconds(3);

    /// <summary>It has not been heard of, and did not say goodbye.</summary>
    public bool IsGone => !HasStopped && Silence > LongestSilence;
}
