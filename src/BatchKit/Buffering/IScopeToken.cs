namespace BatchKit.Buffering;

/// <summary>What a <see cref="BufferingScope"/> stands for: one handle's scope, or an ambient one.</summary>
internal interface IScopeToken
{
    void Close(long version);

    ValueTask CloseAsync(long version);
}
