using BatchKit;
using BatchKit.Testing;
using Xunit;

public sealed class InventoryTests
{
    private static readonly OutputHandle Ana = OutputHandle.Connection(node: 0, sequence: 1);

    [Fact]
    public async Task The_inventory_leaves_as_one_batch()
    {
        await using var output = new CollectingOutputBuffer();

        await new Inventory(output).ShowAsync(Ana, ["lamp", "rope"]);

        Assert.Single(output.Batches);
        Assert.Equal(["You carry:\r\n", "  lamp\r\n", "  rope\r\n"], output.TextsFor(Ana));
    }

    [Fact]
    public async Task The_inventory_is_sent_again_after_an_outage()
    {
        var clock = new ManualTimeProvider();
        await using var output = new CollectingOutputBuffer(new OutputBufferOptions { RetryDelay = TimeSpan.FromSeconds(2) }, clock);
        output.Transport.Fail();

        var showing = new Inventory(output).ShowAsync(Ana, ["lamp"]);
        Assert.False(showing.IsCompleted);
        clock.Advance(TimeSpan.FromSeconds(2));
        await showing;

        Assert.Equal(["You carry:\r\n", "  lamp\r\n"], output.Texts);
    }
}

internal sealed class Inventory(IOutputBuffer output)
{
    public async Task ShowAsync(OutputHandle player, IEnumerable<string> items)
    {
        await using var scope = output.BeginBufferingScope(player);
        output.Write(player, "You carry:\r\n");
        foreach (var item in items)
            output.Write(player, $"  {item}\r\n");
    }
}
