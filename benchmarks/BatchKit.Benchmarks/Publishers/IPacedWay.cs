namespace BatchKit.Benchmarks.Publishers;

/// <summary>A way that can also publish what a tick of a game brings, and go on before it has arrived.</summary>
internal interface IPacedWay : IPublishWay
{
    /// <summary>Starts so many, whose payloads begin with the tick's time.</summary>
    void Start(int messages, long dueAt);

    /// <summary>Completes when all that was started is with the broker.</summary>
    Task FinishAsync();
}
