namespace BatchKit.Testing.Tests;

public sealed class CollectingOutputBufferTests
{
    private readonly OutputHandle _player = Some.Connection();
    private readonly OutputHandle _room = Some.Group();

    [Fact]
    public async Task Nested_scopes_collect_one_batch_when_the_outermost_closes()
    {
        await using var output = new CollectingOutputBuffer();

        var outer = output.BeginBufferingScope(_player);
        await using (output.BeginBufferingScope(_player))
            output.Write(_player, "inner");
        var collectedEarly = output.Messages.Count;
        output.Write(_player, "outer");
        await outer.DisposeAsync();

        Assert.Equal(0, collectedEarly);
        Assert.Equal(["inner", "outer"], Assert.Single(output.Batches).Messages.Select(message => message.Text));
    }

    [Fact]
    public async Task An_ambient_scope_collects_what_it_held_in_one_send_and_in_order()
    {
        await using var output = new CollectingOutputBuffer();

        await using (output.BeginBufferingScope())
        {
            output.Write(_player, "one");
            output.Write(_room, "two");
            output.Write(_player, "three");
        }

        Assert.Equal(["one", "two", "three"], output.Texts);
        Assert.Equal(["one", "three"], output.TextsFor(_player));
        Assert.Equal(1, output.GetStatistics().Sends);
    }

    [Fact]
    public async Task A_scope_ends_in_another_method()
    {
        await using var output = new CollectingOutputBuffer();
        output.BeginBufferingScope(_player);
        output.Write(_player, "text");

        var ended = output.EndBufferingScope(_player);
        await output.WaitForMessagesAsync(_player, 1);

        Assert.True(ended);
        Assert.False(output.EndBufferingScope(_player));
        Assert.Equal(["text"], output.Texts);
    }

    [Fact]
    public async Task A_flush_collects_what_an_open_scope_holds()
    {
        await using var output = new CollectingOutputBuffer();
        using var scope = output.BeginBufferingScope(_player);
        output.Write(_player, "text", MessageHeader.Prompt);

        await output.FlushAsync(_player);

        Assert.Equal(MessageKind.Prompt, Assert.Single(output.Messages).Kind);
        Assert.Equal((1, 1), (output.GetStatistics().AcknowledgedMessages, output.GetStatistics().OpenScopes));
    }

    [Fact]
    public async Task A_full_buffer_behaves_as_its_options_say()
    {
        await using var output = new CollectingOutputBuffer(new OutputBufferOptions { MaxBufferedBytes = 2048, MaxBufferedBytesPerHandle = 2048, MaxMessageBytes = 1024, Overflow = OverflowPolicy.Fail });
        using var scope = output.BeginBufferingScope(_player);
        var payload = Some.RandomBytes(1000);
        output.Write(_player, payload);
        output.Write(_player, payload);

        var accepted = output.TryWrite(_player, payload);

        Assert.False(accepted);
        await Assert.ThrowsAsync<OutputOverflowException>(() => output.WriteAsync(_player, payload).AsTask());
    }

    [Fact]
    public async Task The_script_decides_which_handles_are_refused()
    {
        await using var output = new CollectingOutputBuffer();
        output.Transport.RefuseWhere(batch => batch.Handle == _player);
        var scope = output.BeginBufferingScope(_player);
        output.Write(_player, "lost");
        output.Write(_room, "kept");

        var failure = await Assert.ThrowsAsync<OutputDeliveryException>(() => scope.DisposeAsync().AsTask());

        Assert.Equal(1, failure.LostMessages);
        Assert.Equal(["kept"], output.Texts);
    }

    [Fact]
    public async Task A_stalled_send_gathers_what_is_written_meanwhile()
    {
        await using var output = new CollectingOutputBuffer();
        var stalled = output.Transport.Stall();
        output.Write(_player, "first");
        await stalled.EnteredAsync();
        output.Write(_player, "second");
        output.Write(_player, "third");

        stalled.Release();
        await output.FlushAsync();

        Assert.Equal([1, 2], output.Batches.Select(batch => batch.Messages.Count));
    }

    [Fact]
    public async Task What_was_collected_can_be_read_after_the_end()
    {
        var output = new CollectingOutputBuffer();
        output.BeginBufferingScope(_player);
        output.Write(_player, "text");

        await output.DisposeAsync();

        Assert.Equal(["text"], output.Texts);
        Assert.False(output.TryWrite(_player, "late"));
    }
}
