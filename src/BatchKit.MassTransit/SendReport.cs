using System.Runtime.InteropServices;
using BatchKit.Transports;
using MassTransit;

namespace BatchKit.MassTransit;

/// <summary>Gathers what became of each batch of a send that took several frames.</summary>
internal sealed class SendReport(int batches)
{
    private readonly BatchOutcome[] _outcomes = new BatchOutcome[batches];
    private Exception? _failure;
    private string? _text;

    /// <summary>True while every frame was acknowledged or refused.</summary>
    public bool IsSettled { get; private set; } = true;

    public static string DescribeRefusal(int? node) => $"The node {node} is gone: it has no queue.";

    public async Task AddAsync(PlannedFrame frame, Task send)
    {
        var outcome = BatchOutcome.Acknowledged;
        try
        {
            await send.ConfigureAwait(false);
        }
        catch (Exception exception) when (exception is MessageReturnedException or FrameTooLargeException)
        {
            outcome = BatchOutcome.Refused;
            _failure ??= exception;
            _text ??= exception is MessageReturnedException ? DescribeRefusal(frame.Node) : exception.Message;
        }
        catch (Exception exception)
        {
            outcome = BatchOutcome.Unacknowledged;
            _failure = exception;
            _text = exception.Message;
            IsSettled = false;
        }

        foreach (var place in frame.Places)
            _outcomes[place] = outcome;
    }

    public void ThrowIfFailed()
    {
        if (_failure is not null)
            throw new BatchSendException(ImmutableCollectionsMarshal.AsImmutableArray(_outcomes), _text!, _failure);
    }
}
