namespace BatchKit.Tests.Sequences;

/// <summary>A scope in the model: on one handle, or ambient.</summary>
internal sealed class ModelScope(ModelHandle? handle, ModelGathering? gathering)
{
    public ModelHandle? Handle { get; } = handle;

    public ModelGathering? Gathering { get; } = gathering;

    public bool IsOpen { get; set; } = true;
}
