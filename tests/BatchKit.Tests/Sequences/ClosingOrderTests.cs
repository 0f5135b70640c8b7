using BatchKit.Testing;

namespace BatchKit.Tests.Sequences;

public sealed class ClosingOrderTests
{
    private const int Depth = 6;

    private readonly CollectingTransport _transport = new();

    [Fact]
    public async Task Six_nested_scopes_closed_in_any_of_720_orders_leave_as_one_batch_with_the_last()
    {
        await using var buffer = new OutputBuffer(_transport, timeProvider: new ManualTimeProvider());
        var handle = Some.Connection();
        var orders = Permutations([.. Enumerable.Range(0, Depth)]).ToList();

        foreach (var order in orders)
            CheckOrder(buffer, order, () => buffer.BeginBufferingScope(handle), handle);

        Assert.Equal(720, orders.Count);
        Assert.Equal(720, _transport.Batches.Count);
        Assert.Equal(0, buffer.GetStatistics().OpenScopes);
    }

    [Fact]
    public async Task Six_nested_ambient_scopes_closed_in_any_of_720_orders_leave_as_one_batch_with_the_last()
    {
        await using var buffer = new OutputBuffer(_transport, timeProvider: new ManualTimeProvider());
        var handle = Some.Group();

        foreach (var order in Permutations([.. Enumerable.Range(0, Depth)]))
            CheckOrder(buffer, order, () => buffer.BeginBufferingScope(), handle);

        Assert.Equal(720, _transport.Batches.Count);
        Assert.Equal(0, buffer.GetStatistics().OpenScopes);
    }

    private void CheckOrder(OutputBuffer buffer, int[] order, Func<BufferingScope> open, OutputHandle handle)
    {
        var sentBefore = _transport.Batches.Count;
        var scopes = new BufferingScope[Depth];
        for (var level = 0; level < Depth; level++)
        {
            scopes[level] = open();
            buffer.Write(handle, $"line {level}");
        }

        foreach (var level in order)
        {
            Assert.Equal(sentBefore, _transport.Batches.Count);
            scopes[level].Dispose();
        }

        var batch = Assert.Single(_transport.Batches.Skip(sentBefore));
        Assert.Equal(Some.Lines(Depth), batch.Messages.Select(message => message.Text));
    }

    private static IEnumerable<int[]> Permutations(int[] items)
    {
        if (items.Length <= 1)
            return [items];
        return from index in Enumerable.Range(0, items.Length)
               from rest in Permutations([.. items[..index], .. items[(index + 1)..]])
               select (int[])[items[index], .. rest];
    }
}
