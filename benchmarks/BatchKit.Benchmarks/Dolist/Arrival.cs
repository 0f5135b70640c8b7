namespace BatchKit.Benchmarks.Dolist;

/// <summary>The consumer's end: completes when the last byte is there, and fails when that is not the end mark.</summary>
/// <param name="isOrdered">False for a way that does not keep the order, whose bytes are only counted.</param>
internal sealed class Arrival(bool isOrdered = true)
{
    private readonly Lock _lock = new();
    private long _missingBytes;
    private TaskCompletionSource _complete = new();

    /// <summary>Starts to wait for a number of lists.</summary>
    public Task ExpectAsync(int lists = 1)
    {
        lock (_lock)
        {
            _missingBytes = (long)lists * Lines.TotalBytes;
            _complete = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
            return _complete.Task;
        }
    }

    /// <summary>Takes bytes that came.</summary>
    public void Add(ReadOnlySpan<byte> bytes)
    {
        lock (_lock)
        {
            _missingBytes -= bytes.Length;
            if (_missingBytes < 0)
                _complete.TrySetException(new InvalidOperationException("More bytes came than were written."));
            else if (_missingBytes == 0 && isOrdered && bytes[^1] != Lines.EndMark)
                _complete.TrySetException(new InvalidOperationException("The last byte is not the end mark: the order is broken."));
            else if (_missingBytes == 0)
                _complete.TrySetResult();
        }
    }
}
