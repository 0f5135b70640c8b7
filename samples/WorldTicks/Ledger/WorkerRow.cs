namespace WorldTicks.Ledger;

/// <summary>The state that a worker reports twice a second.</summary>
/// <param name="Name">Its name.</param>
/// <param name="Handling">The number of tasks that it holds.</param>
/// <param name="GivenBack">The number of tasks that it gave back unhandled.</param>
/// <param name="Refused">The number of tasks that it finished after its claim had ended. Other workers have these tasks.</param>
/// <param name="HasStopped">True when it stopped normally.</param>
/// <param name="Silence">The time since its last report.</param>
internal sealed record WorkerRow(string Name, int Handling, long GivenBack, long Refused, bool HasStopped, TimeSpan Silence)
{
    private static readonly TimeSpan LongestSilence = TimeSpan.FromSeconds(3);

    /// <summary>True when its reports have ended and it did not stop normally.</summary>
    public bool IsGone => !HasStopped && Silence > LongestSilence;
}
