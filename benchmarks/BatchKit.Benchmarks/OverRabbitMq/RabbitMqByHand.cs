using System.Buffers;
using BatchKit.Benchmarks.Dolist;

namespace BatchKit.Benchmarks.OverRabbitMq;

/// <summary>A list's lines copied into one rented buffer and published once: the floor.</summary>
internal sealed class RabbitMqByHand(RabbitMqEnds ends) : IDolist
{
    public async Task RunAsync(int lists)
    {
        var arrived = ends.Arrival.ExpectAsync(lists);
        var publishes = new Task[lists];
        for (var list = 0; list < lists; list++)
            publishes[list] = PublishListAsync();
        await Task.WhenAll(publishes);
        await arrived;
    }

    public ValueTask DisposeAsync() => ends.DisposeAsync();

    private async Task PublishListAsync()
    {
        var buffer = ArrayPool<byte>.Shared.Rent(Lines.TotalBytes);
        Lines.CopyTo(buffer);
        await ends.PublishAsync(buffer.AsMemory(0, Lines.TotalBytes));
        ArrayPool<byte>.Shared.Return(buffer);
    }
}
