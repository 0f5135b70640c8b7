namespace BatchKit.Benchmarks.Dolist;

/// <summary>One way to bring the lines to a consumer.</summary>
internal interface IDolist : IAsyncDisposable
{
    /// <summary>Writes all lines of a number of lists, and completes when the consumer has the last byte and the sender its acknowledgements.</summary>
    Task RunAsync(int lists);
}
